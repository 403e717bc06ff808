package protocol

import (
	"fmt"
	"time"
)

// This file says when an ephemeral record is deleted (docs/protocol.md#ephemeral):
// by its own sidecar, which has stopped (Leave), or by a leader, for which it has
// expired (DeletionsDue).

const (
	// StoppedAfter is how long a kube-apiserver has to refuse connections until it
	// counts as stopped.
	StoppedAfter = time.Second
	// StopWait is how long after its shutdown delay a sidecar waits for its
	// kube-apiserver to stop.
	StopWait = time.Minute
)

// Leaving is what a sidecar that stops does about its record.
type Leaving int

// The decisions. The zero value: none was made.
const (
	LeavingUnset  Leaving = iota
	WaitToLeave           // decide again later
	DeleteRecord          // delete it, with the presence
	LeaveRecord           // it stays, and expires
	leavingValues = iota
)

// String names the decision.
func (l Leaving) String() string {
	names := [leavingValues]string{"Unset", "WaitToLeave", "DeleteRecord", "LeaveRecord"}
	if l < 0 || int(l) >= leavingValues {
		return names[LeavingUnset]
	}
	return names[l]
}

// LeaveFacts are what a sidecar knows that stops.
type LeaveFacts struct {
	Ephemeral bool
	// Failed: it stops because of an error. A graceful stop is one that a user or
	// another program asked for.
	Failed bool
	// Roles are those of the record, or if that is corrupt, those that the sidecar
	// read or wrote last.
	Roles      Roles
	Present    bool // its presence is in etcd
	GateClosed bool // for good, and /readyz shows it
	Leads      bool // it may still have the leader's key

	Waited        time.Duration // since its gate closed
	ShutdownDelay time.Duration
	// Refused is for how long its kube-apiserver has refused connections; 0: it has
	// not refused the newest one.
	Refused time.Duration
}

// Leave says whether a sidecar that stops deletes its record, and why not. It may
// do so once nothing of its node serves any more. It does not wait for that
// without end: leaders then delete the record when it has expired.
func Leave(f LeaveFacts) (Leaving, string) {
	switch {
	case !f.Ephemeral:
		return LeaveRecord, "it is not ephemeral"
	case f.Failed: // its services may still serve
		return LeaveRecord, "the sidecar stops because of an error"
	case !f.Present: // another sidecar may have this ID by now
		return LeaveRecord, "the presence is not in etcd"
	case !deletable(f.Roles):
		return LeaveRecord, rolesStay
	// Before the time is up: what is certain now was worth the wait.
	case f.GateClosed && !f.Leads && f.Waited >= f.ShutdownDelay && f.Refused >= StoppedAfter:
		return DeleteRecord, ""
	case f.Waited < f.ShutdownDelay+StopWait:
		return WaitToLeave, "the kube-apiserver has not stopped yet"
	}
	return LeaveRecord, fmt.Sprintf("the kube-apiserver has not stopped within %s", StopWait)
}

const rolesStay = "its roles are not those of a controller alone"

// deletable reports whether a record with these roles may be deleted without
// an administrator. People may have taken the controller role away, and nothing
// else has what they decided. Members of etcd count on a consensus member.
func deletable(r Roles) bool { return r.Controller && !r.Consensus }

// DeletionsDue returns the records that a leader deletes: those that are ephemeral
// and that it ignores already, except its own. Each deletion is guarded by the
// record's revision and by the absence of its presence.
func DeletionsDue(f Fleet, own NodeID) []Record {
	var out []Record
	for _, r := range f.Records {
		if r.Node.Ephemeral && r.Expired() && r.ID != own && deletable(r.Node.Roles) {
			out = append(out, *r)
		}
	}
	return out
}
