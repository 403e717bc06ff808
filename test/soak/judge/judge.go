// Package judge checks a recorded run of a control plane against the protocol's
// invariants (docs/protocol.md#invariants). It is pure: a history goes in, its
// violations come out, so hand-made histories can show that it finds each kind.
//
// It trusts no clock but the recorder's. The store's revisions order everything
// that was written: status, records, candidates, and, as the API servers keep
// their objects in the same store, the objects too. What sidecars answered to
// probes has an instant between sending and receiving; Reading says which
// revisions may have been the newest at an instant, and an answer is held against
// all of them: it is wrong only if it is wrong at each.
//
// It decides by means of its own, not by those of package protocol, of which it
// uses the types and the order of releases alone.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// The invariants, by their names in docs/protocol.md#invariants.
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
	Progress     = "Progress" // checked by the caller, who waits for the end
)

// Bundle is what a release wants.
type Bundle struct {
	Release protocol.Release
	M, A    protocol.Release
	Forms   map[string]string // by object: the name of its form
}

// History is a recorded run. Events are in the order of the store; readings and
// the probes of each instance in the order in which they were sent.
type History struct {
	Bundles  []Bundle
	Events   []Event
	Readings []Reading
	Probes   []Probe
}

// Reading is a linearizable read of the store's revision: it was true at some
// instant between Sent and Got.
type Reading struct {
	Sent, Got time.Duration
	Revision  int64
}

// Probe is an answer of /readyz.
type Probe struct {
	Node      string
	Instance  int // of the node's sidecar: grows with each start
	Release   protocol.Release
	Sent, Got time.Duration
	Ready     bool
	Reason    protocol.Reason // of the gate; empty if the answer has none
}

// Event is a change of one key. Exactly one of the pointers is set.
type Event struct {
	Revision int64
	Seen     time.Duration // when the recorder received it
	Foreign  bool          // done by the one who tests, not by a sidecar

	Status    *protocol.StatusView // of kind StatusAbsent where it was deleted
	Record    *Record
	Candidate *Candidate
	Object    *Object
}

// Record is a node record.
type Record struct {
	Node       string
	Gone       bool
	Corrupt    bool
	Release    protocol.Release
	M          protocol.Release
	Controller bool
}

// Candidate is a key of the election.
type Candidate struct {
	Key, Node string
	Gone      bool
}

// Object is an object of the set.
type Object struct {
	Ref  string
	Gone bool
	UID  string
	Form string // as it is; empty: that of no bundle
	// Epoch is the content epoch of its stamp; 0: it has no valid one.
	Epoch   int64
	Release protocol.Release
	Note    string // shown, and not judged
}

// Violation is an invariant that does not hold, and where.
type Violation struct {
	Invariant string
	Revision  int64 // of the store, at or after which it was seen
	Text      string
	// Late: a request that took effect late caused it. A leader of earlier content
	// had sent it (docs/protocol.md#stale-writes).
	Late bool
}

func (v Violation) String() string {
	return fmt.Sprintf("%s does not hold at revision %d: %s", v.Invariant, v.Revision, v.Text)
}

// Counts is what was judged.
type Counts struct {
	Probes, Ready       int // answers, and those that said ready
	Revisions           int // of the store, of what is under the prefix and of objects
	Statuses, Leaders   int // revisions of the status by sidecars, and how many leaders wrote them
	Restrictions        int // of them: that shut nodes out
	ObjectWrites        int // by sidecars
	LateWrites          int // of them: of earlier content than the status had by then
	Contents            int // changes of the content
	Verdicts            int // pairs of answers between which a gate could have been closed
	NotPlaced, Affected int // probes without a reading before them; object changes by who tests
}

// Judge returns all that is wrong with a history, in the order of revisions.
func Judge(h History) ([]Violation, Counts) {
	j := newJudge(h)
	for i := range h.Events {
		j.event(&h.Events[i])
	}
	j.probes()
	slices.SortStableFunc(j.violations, func(a, b Violation) int { return cmp.Compare(a.Revision, b.Revision) })
	return j.violations, j.counts
}

// Around shows the events about a revision, and the probes of that time that
// said something new.
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
		says := fmt.Sprintf("%s #%d %s ready=%t %s", p.Node, p.Instance, p.Release, p.Ready, p.Reason)
		if last[p.Node] != says && p.Sent >= h.Events[from].Seen {
			fmt.Fprintf(&b, "  %8.3fs..%.3fs probe: %s\n", p.Sent.Seconds(), p.Got.Seconds(), says)
		}
		last[p.Node] = says
	}
	return b.String()
}

// String is a line of a story.
func (e *Event) String() string {
	by := ""
	if e.Foreign {
		by = " (by the test)"
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
			return fmt.Sprintf("record of %s: gone", r.Node)
		case r.Corrupt:
			return fmt.Sprintf("record of %s: corrupt", r.Node)
		}
		return fmt.Sprintf("record of %s: release %s M %s controller=%t", r.Node, r.Release, r.M, r.Controller)
	case e.Candidate != nil:
		c := e.Candidate
		if c.Gone {
			return fmt.Sprintf("candidate %s: gone", c.Key)
		}
		return fmt.Sprintf("candidate %s: %q", c.Key, c.Node)
	case e.Object != nil:
		o := e.Object
		if o.Gone {
			return o.Ref + ": deleted"
		}
		return strings.TrimSpace(fmt.Sprintf("%s: form %q of %s content epoch %d %s", o.Ref, o.Form, o.Release, o.Epoch, o.Note))
	}
	return "nothing"
}
