// Package judge checks the record of a run against the invariants
// (docs/protocol.md#invariants). It is pure: it takes a history and returns
// violations. Histories written by hand show that it finds each kind of violation.
//
// It trusts no clock except the recorder's. The revisions of etcd order all writes:
// status, records, candidates, and also the objects, because the kube-apiservers use
// the same etcd. The answer to a probe was true at some instant between sending and
// receiving. A Reading shows which revisions may have been the
// newest at an instant. An answer is a violation only if it is wrong at each of
// them.
//
// It decides with code of its own. From package protocol it uses only the types
// and the order of releases.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// The invariants (docs/protocol.md#invariants).
const (
	Compatible   = "Compatible"
	Covers       = "Covers"
	Registered   = "Registered"
	OneWriter    = "OneWriter"
	NoStaleWrite = "NoStaleWrite"
	GuardHeld    = "GuardHeld"
	Steady       = "Steady"
	DoneIsDone   = "DoneIsDone"
	NoFight      = "NoFight"
	Awaited      = "Awaited"  // for ephemeral records; Registered and GuardHeld check it for all
	Progress     = "Progress" // checked by the soak, which waits for the end
)

// The safeguards on which the invariants rest (docs/soak.md#safeguards). A program
// without one of them may run for hours before an invariant breaks.
const (
	Stamped    = "Stamped"    // who brings a form brings its stamp (docs/protocol-objects.md#stale-writes)
	Waited     = "Waited"     // DONE comes after the wait (docs/protocol-objects.md#stale-writes)
	HasDrained = "HasDrained" // a leader that records itself as drained writes no more (docs/protocol-objects.md#drain)
	Marked     = "Marked"     // the mark names a content before its first object (docs/protocol-objects.md#mark)
	LeftAlone  = "LeftAlone"  // a sidecar does not change an object of another user (docs/protocol-objects.md#removals)
	RemovesDue = "RemovesDue" // a removal is due (docs/protocol-objects.md#removals)
	RollsBack  = "RollsBack"  // in a rollback only its release brings content (docs/protocol-objects.md#rollback)
	StaysUp    = "StaysUp"    // a sidecar exits only to another one with its ID (docs/protocol-nodes.md#duplicate-ids); the soak checks it
)

// DrainTime is how long a request may take to land, at etcd's default election
// timeout (docs/protocol-objects.md#stale-writes).
const DrainTime = 13 * time.Second

// Bundle is the content of a release. Several bundles may belong to one release.
type Bundle struct {
	Release          protocol.Release
	Digest           string // empty: the only bundle of its release
	M, A             protocol.Release
	Forms            map[string]string // by object: the name of its form
	PruneImmediately bool
}

// History is a recorded run. Events are in the order of etcd; readings, and the
// probes of each instance, are in the order in which they were sent.
type History struct {
	Bundles  []Bundle
	Events   []Event
	Readings []Reading
	Probes   []Probe
	// DrainTime is how long a request may take to land; 0: DrainTime.
	DrainTime time.Duration
	// Restored is the revision to which etcd was restored when this history began; 0:
	// it was not. The events up to it list the keys that etcd contained, and are not judged.
	// Revisions of other histories do not compare.
	Restored int64
	// Former lists the epochs of leaderships that wrote before the restore, if
	// the restore lost some writes. A candidate that only waited may
	// lead after it.
	Former []int64
	// Settled is when sidecars must have noticed the restore. No leadership from
	// before it writes a status after that.
	Settled time.Duration

	// The fields below describe nodes whose roles are moved.
	Services []ServiceMoment
	Seats    []Seats // in the order in which they were asked for
	Takes    []Take
	Downs    []Down
	Acks     []Ack
	Calms    []Span // without faults
	Sights   []Sight
}

// Reading is a linearizable read of etcd's revision: it was true at some instant
// between Sent and Got.
type Reading struct {
	Sent, Got time.Duration
	Revision  int64
	// Member and Cluster are the IDs in the answer; 0: not known.
	Member, Cluster uint64
}

// Probe is an answer of /readyz.
type Probe struct {
	Node      string
	Instance  int // of the node's sidecar; grows with each start
	Release   protocol.Release
	Sent, Got time.Duration
	Ready     bool
	Reason    protocol.Reason // of the gate; empty if the answer contains none
	Sidecar   int             // its process, if that runs services; 0: it does not
}

// Event is a change of one key. Exactly one of the pointers is set.
type Event struct {
	Revision int64
	Seen     time.Duration // when the recorder received it
	Foreign  bool          // done by the soak, not by a sidecar

	Status    *protocol.StatusView // of kind StatusAbsent if it was deleted
	Record    *Record
	Presence  *Presence
	Candidate *Candidate
	Object    *Object
	Mark      *Mark
	Rollback  *Rollback
	Turn      *Turn
	Write     *string // the key of a write of the soak
}

// Record is a node record.
type Record struct {
	Node       string
	Gone       bool
	Corrupt    bool
	Release    protocol.Release
	M          protocol.Release
	Controller bool
	// Serves: its sidecar registered with the controller role, and not without it since.
	Serves bool
	// Member: the record contains the role consensus_member.
	Member bool
	// ExpireAfter is how long its presence must be missing until leaders ignore the
	// record; 0: they never do.
	ExpireAfter time.Duration
	Ephemeral   bool
}

// mayServe reports whether the gate of its node may be open.
func (r Record) mayServe() bool { return r.Corrupt || r.Controller || r.Serves }

// Presence is the key of a live sidecar.
type Presence struct {
	Node string
	Gone bool
}

// Rollback is the key by which people say that they want an older release.
type Rollback struct {
	Gone bool
	To   protocol.Release
}

// Candidate is a key of the election.
type Candidate struct {
	Key, Node string
	Gone      bool
	Created   int64 // revision; 0: the event's revision
}

// Object is an object of the set.
type Object struct {
	Ref  string
	Gone bool
	UID  string
	Form string // its form; empty: no bundle contains this form
	// Epoch is the content epoch of its stamp; 0: the stamp is missing or invalid.
	Epoch   int64
	Release protocol.Release
	Note    string // shown, but not checked
}

// Mark is the parent of the set, with the mark.
type Mark struct {
	Gone      bool
	Damaged   bool // it is not a mark
	FirstDone bool
	Entries   []Entry
	Note      string // shown, but not checked
}

// Entry is a content that a mark names.
type Entry struct {
	Release protocol.Release
	Epoch   int64
}

// Violation is an invariant or a safeguard that does not hold.
type Violation struct {
	Invariant string
	Revision  int64 // of etcd, at or after which it happened
	Text      string
	// Late: a delayed request caused it, of a leader of earlier content
	// (docs/protocol-objects.md#stale-writes).
	Late bool
	Age  int // of etcd, if it was restored; set by the caller
}

func (v Violation) String() string {
	return fmt.Sprintf("%s does not hold at revision %d: %s", v.Invariant, v.Revision, v.Text)
}

// Counts reports how much the judge checked.
type Counts struct {
	Probes, Ready       int // answers, and how many of them were ready
	Revisions           int // of etcd, for keys under the prefix and for objects
	Statuses, Leaders   int // revisions of the status by sidecars, and how many leaders wrote them
	Restrictions        int // how many of them shut nodes out
	ObjectWrites        int // by sidecars
	LateWrites          int // how many of them were of earlier content than the status at the time
	Contents            int // changes of the content
	Verdicts            int // pairs of answers between which the status could have closed a gate
	NotPlaced, Affected int // probes without a reading before them; changes of objects by the soak
	Restarts, InTurn    int // services that were started again with another file, and how many of them in a turn
}

// Add adds the counts of another history.
func (c *Counts) Add(o Counts) {
	for _, n := range []struct{ sum, more *int }{
		{&c.Probes, &o.Probes}, {&c.Ready, &o.Ready}, {&c.Revisions, &o.Revisions}, {&c.Statuses, &o.Statuses}, {&c.Leaders, &o.Leaders},
		{&c.Restrictions, &o.Restrictions}, {&c.ObjectWrites, &o.ObjectWrites}, {&c.LateWrites, &o.LateWrites}, {&c.Contents, &o.Contents},
		{&c.Verdicts, &o.Verdicts}, {&c.NotPlaced, &o.NotPlaced}, {&c.Affected, &o.Affected},
		{&c.Restarts, &o.Restarts}, {&c.InTurn, &o.InTurn},
	} {
		*n.sum += *n.more
	}
}

// Judge returns all violations of a history, in the order of revisions.
func Judge(h History) ([]Violation, Counts) {
	j := newJudge(h)
	for i := range h.Events {
		j.event(&h.Events[i])
	}
	j.end()
	j.probes()
	j.roles()
	slices.SortStableFunc(j.violations, func(a, b Violation) int { return cmp.Compare(a.Revision, b.Revision) })
	return j.violations, j.counts
}

// Around shows the events around a revision, and the probes of that time whose
// answer was new.
func Around(h History, revision int64, events int) string {
	at, _ := slices.BinarySearchFunc(h.Events, revision, func(e Event, r int64) int { return cmp.Compare(e.Revision, r) })
	from, to := max(0, at-events), min(len(h.Events), at+events)
	var b strings.Builder
	for i := range h.Events[from:to] {
		e := &h.Events[from+i]
		mark := "  "
		if e.Revision == revision {
			mark = "> "
		}
		fmt.Fprintf(&b, "%s%s\n", mark, e)
	}
	if from == to {
		return b.String()
	}
	last := map[string]string{}
	for _, p := range h.Probes {
		if p.Got > h.Events[to-1].Seen {
			break
		}
		answer := fmt.Sprintf("%s #%d %s ready=%t %s", p.Node, p.Instance, p.Release, p.Ready, p.Reason)
		if last[p.Node] != answer && p.Sent >= h.Events[from].Seen {
			fmt.Fprintf(&b, "  %8.3fs..%.3fs probe: %s\n", p.Sent.Seconds(), p.Got.Seconds(), answer)
		}
		last[p.Node] = answer
	}
	return b.String()
}

// String is a line of a report.
func (e *Event) String() string {
	by := ""
	if e.Foreign {
		by = " (by the soak)"
	}
	return fmt.Sprintf("%8.3fs %d: %s%s", e.Seen.Seconds(), e.Revision, e.what(), by)
}

func (e *Event) what() string {
	switch {
	case e.Status != nil:
		return "status: " + e.Status.String()
	case e.Record != nil:
		r := e.Record
		switch {
		case r.Gone:
			return fmt.Sprintf("record of %s: deleted", r.Node)
		case r.Corrupt:
			return fmt.Sprintf("record of %s: corrupt", r.Node)
		}
		text := fmt.Sprintf("record of %s: release %s M %s controller=%t", r.Node, r.Release, r.M, r.Controller)
		if r.Member {
			text += " member"
		}
		if r.Ephemeral {
			text += " ephemeral"
		}
		return text
	case e.Presence != nil && e.Presence.Gone:
		return fmt.Sprintf("presence of %s: deleted", e.Presence.Node)
	case e.Presence != nil:
		return fmt.Sprintf("presence of %s", e.Presence.Node)
	case e.Candidate != nil:
		c := e.Candidate
		if c.Gone {
			return fmt.Sprintf("candidate %s: deleted", c.Key)
		}
		return fmt.Sprintf("candidate %s: %q", c.Key, c.Node)
	case e.Object != nil:
		o := e.Object
		if o.Gone {
			return o.Ref + ": deleted"
		}
		return strings.TrimSpace(fmt.Sprintf("%s: form %q of %s content epoch %d %s", o.Ref, o.Form, o.Release, o.Epoch, o.Note))
	case e.Mark != nil:
		return e.Mark.String()
	case e.Rollback != nil && e.Rollback.Gone:
		return "rollback: ended"
	case e.Rollback != nil:
		return "rollback to " + e.Rollback.To.String()
	case e.Turn != nil && e.Turn.Gone:
		return "turn of " + e.Turn.Node + ": ended"
	case e.Turn != nil:
		return "turn of " + e.Turn.Node
	case e.Write != nil:
		return "write of " + *e.Write
	}
	return "nothing"
}
