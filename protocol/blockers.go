package protocol

import (
	"fmt"
	"strings"
)

// Blocker is a node that holds a leader back, and why.
type Blocker struct {
	Node    NodeID
	Release Release // 0.0.0 where the record is corrupt
	Reason  Reason
	Message string // the problem and the remedy
}

// BlockerNames names the nodes of blockers, in a sentence.
func BlockerNames(of []Blocker) string {
	out := make([]string, len(of))
	for i, b := range of {
		out[i] = string(b.Node)
	}
	return strings.Join(out, ", ")
}

// upgradeIt is the remedy for a node below the minimum, where there is no deadlock.
const upgradeIt = "upgrade it"

// Blockers returns the nodes, alive or not, whose gate may be open, that status now
// admits and status next would not. A corrupt record always blocks, an expired one never
// (docs/protocol.md#rule-wait-for-nodes). The messages name remedy for a node below the minimum.
func Blockers(now, next Status, f Fleet, remedy string) []Blocker {
	var out []Blocker
	for _, r := range f.Records {
		if b, blocks := blocker(now, next, r, remedy); blocks {
			out = append(out, b)
		}
	}
	return out
}

// blocker reports whether a record blocks, and returns it as a blocker.
func blocker(now, next Status, r *Record, remedy string) (Blocker, bool) {
	if !r.MayServe() || r.Expired() {
		return Blocker{}, false
	}
	if r.Problem != "" {
		return Blocker{Node: r.ID, Reason: RecordCorrupt, Message: "its record is corrupt: " + r.Remedy()}, true
	}
	if before, _ := Admits(now, r.Node); !before {
		return Blocker{}, false
	}
	after, reason := Admits(next, r.Node)
	if after {
		return Blocker{}, false
	}
	return Blocker{Node: r.ID, Release: r.Node.Version.Release, Reason: reason, Message: blockerMessage(next, r, reason, remedy)}, true
}

func blockerMessage(next Status, r *Record, reason Reason, remedy string) string {
	var why string
	switch reason {
	case ReleaseTooOld:
		why = fmt.Sprintf("runs release %s, but the new objects need %s or newer; %s", r.Node.Version.Release, next.MinCompatible, remedy)
	default:
		why = fmt.Sprintf("needs a reconciler of release %s or newer, but this leader is %s", r.Node.MinReconciler, next.Version.Release)
	}
	if !r.Node.Roles.Controller {
		why += "; its controller role was taken away, but its sidecar has not confirmed that its gate is closed"
	}
	if r.Alive && reason == ReleaseTooOld && r.Presence.Reason == ServicesNotReady {
		why += " (its services are not ready: if it was upgraded, it is registered when they are; see sidecar status on that node)"
	}
	switch {
	case r.Alive:
	case r.MayRestart:
		why += fmt.Sprintf(" (it is not alive%s)", r.expiryNote())
	default:
		why += fmt.Sprintf(" (it is not alive%s; if it has stopped for good: %s)", r.expiryNote(), r.removalCommand())
	}
	return why
}

// newerRecords returns the nodes of a release above own, alive or not, whose gate may
// be open. Expired records do not count (docs/protocol.md#rule-hold-for-newer).
func newerRecords(f Fleet, own Release) []Blocker {
	var out []Blocker
	for _, r := range f.NewerControllers(own) {
		if !r.Expired() {
			out = append(out, Blocker{Node: r.ID, Release: r.Node.Version.Release, Reason: NewerRelease, Message: newerMessage(r)})
		}
	}
	return out
}

func newerMessage(r *Record) string {
	var note string
	if !r.Alive && r.Node.ExpireAfter > 0 {
		note = fmt.Sprintf(" (it is not alive%s)", r.expiryNote())
	}
	remedy := "or if it has stopped for good: " + r.removalCommand()
	if r.MayRestart {
		remedy = "unless it is restarting"
	}
	return fmt.Sprintf("is registered with release %s%s, and the objects are newer than this leader; start it again, %s",
		r.Node.Version.Release, note, remedy)
}

// Remedy says why a record is corrupt, and how to repair it; empty: it is valid.
func (r *Record) Remedy() string {
	if r.Problem == "" {
		return ""
	}
	return fmt.Sprintf("%s; its sidecar writes it again if it is alive; if the node has stopped for good: %s", r.Problem, r.removalCommand())
}

// DepartureCommands are the commands that remove a node. Its etcd member is removed first: until
// then it counts for the majority, and the node could start again from its data directory.
func (r *Record) DepartureCommands() string {
	if !r.Votes {
		return r.removalCommand()
	}
	return fmt.Sprintf("sidecar cluster remove %s; then: %s", r.ID, r.removalCommand())
}

// removalCommand is the command that removes the record.
func (r *Record) removalCommand() string {
	return fmt.Sprintf("sidecar node remove %s --confirm-stopped", r.ID)
}

// Missing reports whether a node whose gate may open is not alive, and people must do
// something about it: the leader deletes the record of an ephemeral one.
func (r *Record) Missing() bool {
	deleted := r.Node.Ephemeral && r.Node.ExpireAfter > 0 && r.Node.Roles.ControllerAlone()
	return r.Problem == "" && r.MayServe() && !r.Alive && !deleted
}

// MissingRemedy is the remedy for a missing node. Until RemoveAfter it may be restarting, so no removal is proposed. A node
// whose member was removed does not start again with its data directory.
func (r *Record) MissingRemedy() string {
	if r.Removed.On() {
		return fmt.Sprintf("it is not alive: its etcd member was removed %s; if it has stopped for good: %s; to bring it back, "+
			"delete its data directory, and join with a new token: sidecar cluster token create --node %s", r.Removed, r.removalCommand(), r.ID)
	}
	if r.MayRestart {
		return fmt.Sprintf("it is not alive; start it again, unless it is restarting; to see whether it was stopped or killed: sidecar status there, or sidecar history --node %s", r.ID)
	}
	return "it is not alive; start it again, or if it has stopped for good: " + r.DepartureCommands()
}
