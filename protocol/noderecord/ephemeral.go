package noderecord

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// This file decides when an ephemeral record is deleted (docs/protocol-nodes.md#ephemeral):
// by its own sidecar when it stops (Retire), or by a leader when the record expired
// (DeletionsDue).

const (
	// StoppedAfter is how long a kube-apiserver must refuse connections before it
	// counts as stopped.
	StoppedAfter = time.Second
	// StopWait is how long after its shutdown delay a sidecar waits for its
	// kube-apiserver to stop.
	StopWait = time.Minute
)

// Retirement says whether a sidecar that stops deletes its record.
type Retirement string

// The decisions.
const (
	WaitToRetire Retirement = "WaitToRetire" // decide again later
	DeleteRecord Retirement = "DeleteRecord" // delete it, with the presence
	KeepRecord   Retirement = "KeepRecord"   // it stays, and expires
)

// RetireFacts describe a sidecar that stops, and its node.
type RetireFacts struct {
	Ephemeral bool
	// Failed: it stops because of an error. A stop is graceful if a user or another
	// program asked for it.
	Failed bool
	// Roles are the roles in the record. If it is corrupt, they are the last roles that
	// the sidecar read or wrote.
	Roles      protocol.Roles
	Turn       protocol.Turn // of its node; zero: it has none
	Present    bool          // its presence is in etcd
	GateClosed bool          // for good, and /readyz shows it
	Leads      bool          // it may still hold the leader's key

	Waited        time.Duration // since its gate closed
	ShutdownDelay time.Duration
	// Refused is how long its kube-apiserver has been refusing connections; 0: it did not
	// refuse the newest one.
	Refused time.Duration
}

// Retire decides whether a sidecar that stops deletes its record, and why not. It may
// do so once nothing of its node serves any more. It waits for a limited time only:
// after that, a leader deletes the record when it expires.
func Retire(f RetireFacts) (Retirement, string) {
	switch {
	case !f.Ephemeral:
		return KeepRecord, "it is not ephemeral"
	case f.Failed: // its services may still serve
		return KeepRecord, "the sidecar stops because of an error"
	case !f.Present: // another sidecar may have this ID by now
		return KeepRecord, "the presence is not in etcd"
	case !f.Roles.ControllerAlone():
		return KeepRecord, rolesStay
	case keepsRecord(f.Turn):
		return KeepRecord, "its node has a turn, whose work may go on"
	// Before the wait, which a confirmed stop ends.
	case f.GateClosed && !f.Leads && f.Waited >= f.ShutdownDelay && f.Refused >= StoppedAfter:
		return DeleteRecord, ""
	case f.Waited < f.ShutdownDelay+StopWait:
		return WaitToRetire, "the kube-apiserver has not stopped yet"
	}
	return KeepRecord, fmt.Sprintf("the kube-apiserver has not stopped within %s", StopWait)
}

const rolesStay = "its roles are not those of a controller alone"

// keepsRecord reports whether an ephemeral record stays because of the turn of its node: the
// cordon is in the record, and a sidecar that registers again would open the gate in the middle of
// the work. Services that change keep the gate closed by themselves.
func keepsRecord(t protocol.Turn) bool { return t.Node != "" && t.Kind != protocol.TurnOfServices }

// DeletionsDue returns the records that a leader deletes: ephemeral ones that it
// ignores already, except its own. Each deletion is guarded by the revisions of the record and of
// the turn of its node, and by the absence of its presence.
func DeletionsDue(f protocol.Fleet, own protocol.NodeID) []protocol.Record {
	var out []protocol.Record
	for _, r := range f.Records {
		if r.Node.Ephemeral && r.Expired() && r.ID != own && r.Node.Roles.ControllerAlone() {
			if turn, _ := f.Turns.Of(r.ID); !keepsRecord(turn) {
				out = append(out, *r)
			}
		}
	}
	return out
}
