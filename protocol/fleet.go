package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// Remedy says why a record is corrupt, and what to do about it; empty: it is
// well.
func (r Record) Remedy() string {
	if r.Problem == "" {
		return ""
	}
	return fmt.Sprintf("%s; its sidecar, if alive, writes it again; if the node is gone: %s", r.Problem, r.removal())
}

// removal is the command that removes the record.
func (r Record) removal() string {
	return fmt.Sprintf("sidecar node remove %s --confirm-stopped", r.ID)
}

// mayLead reports whether others must make way for this record if it is newer.
func (r Record) mayLead() bool {
	return r.Problem == "" && r.Node.Roles.Controller && r.Alive && r.Presence.Election != Withdrawn
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

// Mismatch is a release of which nodes have different bundles.
type Mismatch struct {
	Release Release
	Digests []string            // sorted
	Nodes   map[string][]NodeID // by digest, sorted
}

// String names the nodes by digest.
func (m Mismatch) String() string {
	parts := make([]string, 0, len(m.Digests))
	for _, d := range m.Digests {
		names := make([]string, 0, len(m.Nodes[d]))
		for _, id := range m.Nodes[d] {
			names = append(names, string(id))
		}
		parts = append(parts, fmt.Sprintf("%s on %s", shortDigest(d), strings.Join(names, ", ")))
	}
	return strings.Join(parts, "; ")
}

// shortDigest keeps enough of a digest to tell two of them apart.
func shortDigest(d string) string {
	const enough = len("sha256:") + 12
	if len(d) > enough {
		return d[:enough]
	}
	return d
}

// Mismatched returns the releases of which controllers tell different digests,
// lowest first. A record that tells none does not count.
func Mismatched(f Fleet) []Mismatch {
	byRelease := map[Release]*Mismatch{}
	for _, r := range f.Records {
		if r.Problem != "" || !r.Node.Roles.Controller || r.Node.Digest == "" {
			continue
		}
		release := r.Node.Version.Release
		m := byRelease[release]
		if m == nil {
			m = &Mismatch{Release: release, Nodes: map[string][]NodeID{}}
			byRelease[release] = m
		}
		if m.Nodes[r.Node.Digest] == nil {
			m.Digests = append(m.Digests, r.Node.Digest)
		}
		m.Nodes[r.Node.Digest] = append(m.Nodes[r.Node.Digest], r.ID)
	}
	var out []Mismatch
	for _, m := range byRelease {
		if len(m.Digests) > 1 {
			slices.Sort(m.Digests)
			out = append(out, *m)
		}
	}
	slices.SortFunc(out, func(a, b Mismatch) int { return a.Release.Compare(b.Release) })
	return out
}

// NewestAlive returns the record of the newest controller that is above own,
// alive and has not withdrawn. While there is one, own may not campaign (4.4).
func NewestAlive(f Fleet, own Release) (Record, bool) {
	var newest Record
	found := false
	for _, r := range f.Records {
		if !r.mayLead() || !own.Less(r.Node.Version.Release) {
			continue
		}
		if !found || newest.Node.Version.Release.Less(r.Node.Version.Release) {
			newest, found = r, true
		}
	}
	return newest, found
}

// Eligibility says whether a sidecar may campaign (4.4), and why not.
type Eligibility struct {
	Eligible bool
	Reason   Reason // empty while eligible
	Message  string // empty while eligible
}

// Eligible decides whether local may campaign: its record is well, has the
// controller role, and no newer controller is alive.
func Eligible(f Fleet, local Local) Eligibility {
	own, found := f.Record(local.ID)
	switch {
	case !found || own.Problem != "" || own.Node.Version != local.Version:
		return Eligibility{Reason: NotRegistered, Message: "this node's record does not tell what it runs yet"}
	case !own.Node.Roles.Controller:
		return Eligibility{Reason: NotController, Message: "this node does not have the role kubernetes_controller"}
	}
	if newer, found := NewestAlive(f, local.Version.Release); found {
		return Eligibility{Reason: NewerAlive, Message: fmt.Sprintf("%s of release %s is alive and should lead", newer.ID, newer.Node.Version.Release)}
	}
	return Eligibility{Eligible: true}
}

// Blocker is a node that holds a leader back, and why.
type Blocker struct {
	Node    NodeID
	Release Release // 0.0.0 where the record is corrupt
	Reason  Reason
	Message string // what to do about it
}

// Blockers returns the registered controllers, alive or not, that now admits
// and next would not. A corrupt record always blocks (4.3, 4.5 rule 6), one that
// is expired never does (4.9).
func Blockers(now, next Status, f Fleet) []Blocker {
	var out []Blocker
	for _, r := range f.Records {
		if b, blocks := blocks(now, next, r); blocks {
			out = append(out, b)
		}
	}
	return out
}

func blocks(now, next Status, r Record) (Blocker, bool) {
	if !r.Counts() || r.Expired() {
		return Blocker{}, false
	}
	if r.Problem != "" {
		return Blocker{
			Node: r.ID, Reason: RecordCorrupt,
			Message: "its record is corrupt: " + r.Remedy(),
		}, true
	}
	if admitted, _ := Admits(now, r.Node); !admitted {
		return Blocker{}, false
	}
	admitted, reason := Admits(next, r.Node)
	if admitted {
		return Blocker{}, false
	}
	return Blocker{Node: r.ID, Release: r.Node.Version.Release, Reason: reason, Message: blockerMessage(next, r, reason)}, true
}

func blockerMessage(next Status, r Record, reason Reason) string {
	var why string
	switch reason {
	case ReleaseTooOld:
		why = fmt.Sprintf("runs release %s, below %s, which the new objects need; upgrade it", r.Node.Version.Release, next.MinCompatible)
	default:
		why = fmt.Sprintf("needs a reconciler of release %s or newer; this leader is %s", r.Node.MinReconciler, next.Version.Release)
	}
	if !r.Alive {
		why += fmt.Sprintf(" (it is not alive%s; if it has stopped for good: %s)", r.patience(), r.removal())
	}
	return why
}

// patience says how long a leader waits for a node that is not alive, where that
// has an end.
func (r Record) patience() string {
	if r.Node.FenceAfter <= 0 {
		return ""
	}
	return fmt.Sprintf(" and is passed over once it has been gone for %s", r.Node.FenceAfter)
}

// passedOver names the nodes that would be blockers if their records had not
// expired, for people; empty: none.
func passedOver(now, next Status, f Fleet) string {
	var ids []string
	for _, r := range f.Records {
		expired := r.Expired()
		r.Gone = 0
		if _, blocks := blocks(now, next, r); blocks && expired {
			ids = append(ids, string(r.ID))
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return "; passed over, for they have been gone for as long as they said: " + strings.Join(ids, ", ")
}

// newerRecords returns the records of controllers above own, alive or not, but
// those that are expired.
func newerRecords(f Fleet, own Release) []Blocker {
	var out []Blocker
	for _, r := range f.Records {
		if r.Problem != "" || !r.Node.Roles.Controller || !own.Less(r.Node.Version.Release) || r.Expired() {
			continue
		}
		out = append(out, Blocker{Node: r.ID, Release: r.Node.Version.Release, Reason: NewerRelease, Message: newerMessage(r)})
	}
	return out
}

func newerMessage(r Record) string {
	var patience string
	if !r.Alive && r.Node.FenceAfter > 0 {
		patience = fmt.Sprintf(" (it is not alive%s)", r.patience())
	}
	return fmt.Sprintf("the objects are of a newer release and it is registered with %s%s; bring it back, or if it has stopped for good: %s",
		r.Node.Version.Release, patience, r.removal())
}

// removalsDue reports whether no controller of a release below own is
// registered any more, so that objects which the bundle dropped may go (6.3). A
// corrupt record may be anything, and counts as older. So does one that is
// expired: nothing waits for removals, and its node may come back.
func removalsDue(f Fleet, own Release) bool {
	return !slices.ContainsFunc(f.Records, func(r Record) bool {
		return r.Counts() && (r.Problem != "" || r.Node.Version.Release.Less(own))
	})
}

// UpgradeReady reports whether the next upgrade may start: the status is DONE
// at the one release that all registered controllers have, and none is corrupt
// (4.10).
func UpgradeReady(v StatusView, f Fleet) bool {
	if v.Kind != StatusPresent || v.Status.State != Done {
		return false
	}
	controllers := 0
	for _, r := range f.Records {
		switch {
		case !r.Counts():
		case r.Problem != "" || r.Node.Version.Release != v.Status.Version.Release:
			return false
		default:
			controllers++
		}
	}
	return controllers > 0
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

// Tells reports whether a record says what local runs: release, constraint,
// boot, and when leaders may pass over it. Only then does a status that is read afterwards open the gate (4.2).
func Tells(r Record, local Local, bootID string) bool {
	return r.Problem == "" && r.Node.ID == local.ID &&
		r.Node.Version == local.Version &&
		r.Node.MinReconciler == local.Constraints.MinReconciler &&
		r.Node.BootID == bootID &&
		r.Node.FenceAfter == local.FenceAfter
}

// Registers reports whether this node has to register again, from its record
// as it was found and the state of it that was judged last: it is gone, tells
// something else, its controller role changed, or it was written more than once
// in between, so that nobody knows what it told meanwhile. A role that people
// took away is not taken back, but that is a new registration, and so is giving
// it again (4.2).
func Registers(found bool, r, last Record, local Local, bootID string) bool {
	return !found || !Tells(r, local, bootID) ||
		r.Node.Roles.Controller != last.Node.Roles.Controller ||
		r.Created != last.Created || r.Writes > last.Writes+1
}

// YieldsID reports whether a sidecar has to give up its node ID to the one
// whose presence was found under it (4.9). On one machine the newest wins; a
// newcomer from another machine is refused while the presence lives. held says
// that this instance has had the presence before, so the other came later.
func YieldsID(found Presence, instance, machineID string, held bool) bool {
	if found.Instance == instance || found.Instance == "" {
		return false
	}
	sameMachine := machineID != "" && found.MachineID == machineID
	return held || !sameMachine
}
