package protocol

import (
	"fmt"
	"strings"
	"time"
)

// StepKind says what the leader's shell has to do. The shell branches on
// nothing else.
type StepKind int

// The kinds of a step. The zero value is no step.
const (
	StepUnset StepKind = iota
	// StepResign: give leadership up. With Withdraw, show `withdrawn` and do
	// not campaign until the own apiserver answers (4.7).
	StepResign
	// StepHold: nothing to do until a fact changes, but to keep the objects as
	// Work left them, if there is any: what others change is put back (6.5).
	StepHold
	// StepAwait: Blockers have to go first.
	StepAwait
	// StepSurvey: read the mark and the stamps from the API, then ask again.
	StepSurvey
	// StepReconcile: make the objects as Work says, then ask again.
	StepReconcile
	// StepWrite: write Status in a transaction that holds only under Guard,
	// then ask again, whether it held or not.
	StepWrite
)

// String returns the kind's name.
func (k StepKind) String() string {
	switch k {
	case StepResign:
		return "Resign"
	case StepHold:
		return "Hold"
	case StepAwait:
		return "Await"
	case StepSurvey:
		return "Survey"
	case StepReconcile:
		return "Reconcile"
	case StepWrite:
		return "Write"
	case StepUnset:
	}
	return "Unset"
}

// Guard is the condition under which a status may be committed.
type Guard struct {
	Epoch          int64 // the leader's key still has this create revision
	StatusRevision int64 // the status still has this mod revision; 0: it is still absent
	FleetRevision  int64 // no node record was modified after this revision; 0: not asked
}

// Work is what a pass over the objects has to reach.
type Work struct {
	Content Content
	// Removals says that objects which the bundle dropped may be deleted now.
	// Otherwise they are counted as owed (6.3).
	Removals bool
	// LeaderEpoch is recorded in the mark before the first write (6.4).
	LeaderEpoch int64
	// First says that this is the first reconciliation (rule 3): there is no
	// status, and the mark that was surveyed does not say firstDone. Where it
	// says so by now, the work is unfounded. Without First there is a status, so
	// that a mark which has to be made anew says firstDone at once.
	First bool
	// Wait says that DONE follows: the list that finds everything in place counts
	// only if it was begun when no request of a former leader, and none of other
	// content, could land any more (6.4).
	Wait bool
	// Beside is the entry that a mark gets which has to be made anew beside a
	// status. The zero Content: there is no status, and the stamps have to serve
	// for the mark, once no request of a former leader can land any more.
	Beside Content
}

// Step is a decision of the leader: everything the shell needs to carry it out
// and to explain it.
type Step struct {
	Kind     StepKind
	Rule     Rule      // that decided
	Message  string    // one sentence for people
	Reason   Reason    // of StepResign
	Withdraw bool      // of StepResign
	Blockers []Blocker // of StepAwait, and of StepHold by rule 2
	Work     Work      // of StepReconcile; of StepSurvey Beside alone; of StepHold what is kept
	Status   Status    // of StepWrite
	Guard    Guard     // of StepWrite
}

// String prints the step canonically, for logs, golden tests and the model
// checker.
func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)", s.Kind, s.Rule)
	switch s.Kind {
	case StepWrite:
		fmt.Fprintf(&b, " %s if epoch=%d status=%d", s.Status, s.Guard.Epoch, s.Guard.StatusRevision)
		if s.Guard.FleetRevision != 0 {
			fmt.Fprintf(&b, " fleet<=%d", s.Guard.FleetRevision)
		}
	case StepReconcile:
		fmt.Fprintf(&b, " %s removals=%t wait=%t", s.Work.Content, s.Work.Removals, s.Work.Wait)
	case StepResign:
		fmt.Fprintf(&b, " %s withdraw=%t", s.Reason, s.Withdraw)
	case StepAwait, StepHold, StepSurvey, StepUnset:
	}
	for _, bl := range s.Blockers {
		fmt.Fprintf(&b, " [%s %s]", bl.Node, bl.Reason)
	}
	return b.String()
}

// Outcome is what a pass over the objects came to, as far as the leader's next
// decision needs it.
type Outcome struct {
	// Complete: all required objects are as the bundle wants them, a last list
	// found them so, and the mark names this content alone, with firstDone.
	Complete bool
	// Owed counts the objects whose removal waits (6.3).
	Owed int
	// HighestEpoch is the highest content epoch that was seen in the mark or on
	// any object of the set. One that other content has taken counts as one
	// higher.
	HighestEpoch int64
	// Unsure is when the newest request that writes was given up with an unknown
	// outcome: it may land until DrainTime after that. It counts also where the
	// pass failed. Zero: the outcome of all is known.
	Unsure time.Time
	// Unfounded: the mark is no longer the one that the work rests on
	// (Work.First). Nothing was written; it has to be surveyed again.
	Unfounded bool
}
