package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// NodeID names a node: a DNS subdomain, by default the host name.
type NodeID string

// Constraints are a bundle's conditions, written by people (DESIGN 1). Neither
// may be above the bundle's release. The zero value asks for nothing.
type Constraints struct {
	MinReconciler Release // M: the reconciler must have been at least this before the node serves
	MinApiserver  Release // A: all controllers must be at least this before the objects are applied
}

// Validate returns an error that says which constraint is above the release,
// or nil.
func (c Constraints) Validate(own Release) error {
	if own.Less(c.MinReconciler) {
		return fmt.Errorf("minReconcilerRelease %s is above the release %s: the node could never become ready", c.MinReconciler, own)
	}
	if own.Less(c.MinApiserver) {
		return fmt.Errorf("minApiserverRelease %s is above the release %s: the objects would shut out their own release", c.MinApiserver, own)
	}
	return nil
}

// Local is what this sidecar is and runs.
type Local struct {
	ID          NodeID
	Version     Version
	Constraints Constraints
	Digest      string // of the bundle
	Epoch       int64  // of the own leadership; 0 while it does not lead
	// PruneImmediately: removals do not wait for controllers of older releases
	// (prunePolicy: Immediately; 6.3).
	PruneImmediately bool
	// FenceAfter is how long its presence may be gone before leaders pass over
	// its record (--expire-dead-nodes); 0: they never do (4.9).
	FenceAfter time.Duration
}

// Node is what a node record says.
type Node struct {
	ID            NodeID
	Roles         Roles
	Version       Version
	MinReconciler Release
	Address       string // of the sidecar's listener; empty: unknown
	Digest        string // of its bundle
	BootID        string
	FenceAfter    time.Duration // as in Local
}

// Record is a node record as it was found under its key, together with its
// presence.
type Record struct {
	ID       NodeID // from the key
	Node     Node   // what the value says; only the decodable part where Problem is set
	Problem  string // why the record is corrupt; empty: it is well
	Revision int64  // the key's mod revision
	Created  int64  // the key's create revision
	Writes   int64  // how often the key was written since it was created

	Alive    bool // it has a presence
	Presence Presence
	// Gone is for how long at least, by the clock of the leader that decides, the
	// presence has been gone while the record was not written; 0 where it is
	// alive, or nobody counts (4.9).
	Gone time.Duration
}

// Presence is what an alive sidecar says of itself.
type Presence struct {
	Instance  string
	MachineID string
	Ready     bool
	Reason    Reason
	Election  ElectionState
}

// ElectionState is the part that a sidecar plays in the election. The empty
// value means that it has not said.
type ElectionState string

// The election states, as they stand in presences and in /status.
const (
	Ineligible  ElectionState = "ineligible"  // a newer controller is alive, or it is not a registered controller
	Campaigning ElectionState = "campaigning" // waits for its turn
	Leading     ElectionState = "leading"     // leadership is confirmed
	Withdrawn   ElectionState = "withdrawn"   // its own apiserver is out of reach (4.7)
)

// Counts reports whether the record says something about the fleet: it is
// corrupt, or has the controller role (4.3).
func (r Record) Counts() bool { return r.Problem != "" || r.Node.Roles.Controller }

// Expired reports whether a leader passes over the record: its sidecar has
// promised to close its gate before, and that can no longer be undone but by
// writing the record (4.9). A corrupt record promises nothing.
func (r Record) Expired() bool {
	return r.Problem == "" && !r.Alive && r.Node.FenceAfter > 0 && r.Gone >= r.Node.FenceAfter
}

// Fences reports whether a sidecar has to close its gate, from how long ago it
// last sent a request that confirmed its presence. It is half of what leaders
// wait for: clocks may differ, and gates need a moment to close (4.9).
func Fences(unconfirmed, fenceAfter time.Duration) bool {
	return fenceAfter > 0 && unconfirmed >= fenceAfter/2
}

// Fleet is all node records and presences as observed at one etcd revision.
type Fleet struct {
	Revision int64
	// Rewinds is how often the store had gone back before, as after a restore
	// from a backup. Revisions compare only where it is equal.
	Rewinds int
	Records []Record // sorted by ID
}

// Record returns the record of id, if there is one.
func (f Fleet) Record(id NodeID) (Record, bool) {
	i, found := slices.BinarySearchFunc(f.Records, id, func(r Record, id NodeID) int { return cmp.Compare(r.ID, id) })
	if !found {
		return Record{}, false
	}
	return f.Records[i], true
}

// Summary is what the fleet's records come to. Min and Max include the local
// release (4.3).
type Summary struct {
	Revision    int64
	Min, Max    Release
	Controllers int // well records with the controller role
	Corrupt     int // corrupt records
}

// Summarize counts the controllers of f and finds their lowest and highest
// release; local takes part.
func Summarize(f Fleet, local Release) Summary {
	s := Summary{Revision: f.Revision, Min: local, Max: local}
	for _, r := range f.Records {
		switch {
		case r.Problem != "":
			s.Corrupt++
		case r.Node.Roles.Controller:
			s.Controllers++
			s.Min = minRelease(s.Min, r.Node.Version.Release)
			s.Max = maxRelease(s.Max, r.Node.Version.Release)
		}
	}
	return s
}

func minRelease(a, b Release) Release {
	if b.Less(a) {
		return b
	}
	return a
}

func maxRelease(a, b Release) Release {
	if a.Less(b) {
		return b
	}
	return a
}
