package protocol

import (
	"slices"
	"time"
)

// Voter is a voter of the etcd that the sidecars run.
type Voter struct {
	Name    string // the node ID, or the ID of the member if that is not known
	Address string
	Healthy bool   // it answers, and knows a leader
	Waits   bool   // it answers, and knows no leader: it serves again when a majority does
	Leaving bool   // its removal was decided before, and may not be carried out yet
	Trouble string // the problem and its remedy, if it is not healthy
}

// MemberRemoval is the removal of a member of the etcd that the sidecars run, by people. Its zero value: there was none.
type MemberRemoval struct {
	Node     NodeID
	At       time.Time
	By       string // the user and the machine; empty: unknown
	Revision int64  // of the key that says so
}

// On reports whether there was one.
func (m MemberRemoval) On() bool { return m.Node != "" }

// String says when and by whom, for people.
func (m MemberRemoval) String() string {
	text := "at " + m.At.UTC().Format(time.RFC3339)
	if m.By != "" {
		text += " by " + m.By
	}
	return text
}

// Majority returns how many of a number of voters must answer.
func Majority(voters int) int { return voters/2 + 1 }

// RemoveAfter is how long a node must be without a presence before people read how to
// remove it, or its member: longer than a machine needs to start again.
const RemoveAfter = 5 * time.Minute

// MayRestart reports whether a node without a presence for so long may be restarting
// (docs/protocol.md#missing). Every message about a missing node follows it.
func MayRestart(missing time.Duration) bool { return missing < RemoveAfter }

// WithMayRestart returns a copy of a fleet whose records show which nodes may be restarting: those that are not
// alive, and of which mayRestart, by the count of the node that asks, says so.
func WithMayRestart(f Fleet, mayRestart func(NodeID) bool) Fleet {
	marked := slices.Clone(f.Records)
	for i, r := range marked {
		if !r.Alive && mayRestart(r.ID) {
			one := *r
			one.MayRestart = true
			marked[i] = &one
		}
	}
	f.Records = marked
	return f
}

// Unseen returns a copy of a fleet as a command reads it, which does not know for how long a node has been missing: any of
// them may be restarting. The sidecars know more.
func Unseen(f Fleet) Fleet { return WithMayRestart(f, func(NodeID) bool { return true }) }
