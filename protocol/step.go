package protocol

import (
	"fmt"
	"strings"
	"time"
)

// StepKind is the kind of work that package election must do. It branches on nothing
// else.
type StepKind int

// The kinds of a step. The zero value is no step.
const (
	StepUnset StepKind = iota
	// StepResign: give up leadership. With Withdraw, show `withdrawn` and do not
	// campaign until this node's kube-apiserver works again.
	StepResign
	// StepHold: nothing to do until a fact changes. With Work, keep the objects as
	// it left them: repair drift.
	StepHold
	// StepAwait: wait until the Blockers are upgraded or removed.
	StepAwait
	// StepSurvey: read the mark and the stamps from the API, then call Next again.
	StepSurvey
	// StepReconcile: bring the objects to Work, then call Next again.
	StepReconcile
	// StepWrite: write Status in a transaction that commits only under Guard. Then
	// call Next again, whether it committed or not.
	StepWrite
)

// String returns the kind's name.
func (k StepKind) String() string {
	return nameOf(k, "Unset", "Resign", "Hold", "Await", "Survey", "Reconcile", "Write")
}

// nameOf returns the name of a value that is counted from 0; for a value without one, the first.
func nameOf[T ~int](value T, names ...string) string {
	if value < 0 || int(value) >= len(names) {
		return names[0]
	}
	return names[value]
}

// Guard is the condition under which a status may be committed.
type Guard struct {
	Epoch          int64 // the leader's key is still at this create revision
	StatusRevision int64 // the status is still at this mod revision; 0: it is still absent
	FleetRevision  int64 // no node record was modified after this revision; 0: not asked
	// ReplacementRevision: the replacement is still at this mod revision, and the write
	// deletes it: it is used once. 0: the write does not use it.
	ReplacementRevision int64
}

// Work is the goal of a pass over the objects.
type Work struct {
	Content Content
	// Removals: objects that the bundle dropped may be deleted now. Otherwise they
	// are counted as owed (docs/protocol-objects.md#removals).
	Removals bool
	// Store is this store's ID. Each write of the mark also writes it on a parent
	// without one. If the parent carries another one, nothing is written. Empty:
	// unknown, so it is not written.
	Store string
	// LeaderEpoch is recorded in the mark before the first write.
	LeaderEpoch int64
	// First: this is the first reconciliation. There is no status, and the mark that
	// was surveyed does not contain firstDone. If the mark contains it by now, the work
	// is unfounded. Without First there is a status, so a mark that must be written
	// again contains firstDone at once (docs/protocol.md#rule-first-reconciliation).
	First bool
	// Over, of First: the bundle whose objects the work may replace; empty: none.
	Over string
	// Wait: DONE follows. The list that finds all objects in place counts only if
	// it began when no request of a former leader, and none of other content,
	// could land any more (docs/protocol-objects.md#stale-writes).
	Wait bool
	// FallbackEntry is the entry of a mark that must be written again while there
	// is a status. The zero Content: there is no status either, so the entries come
	// from the stamps, once no request of a former leader can land any more
	// (docs/protocol-objects.md#mark).
	FallbackEntry Content
}

// Step is a decision of the leader: all that package election needs to carry it
// out and to explain it.
type Step struct {
	Kind StepKind
	Rule Rule // that decided
	// Reread, of StepHold: the decision rests on the mark, which the leader does not
	// watch now. It surveys the mark again for Work, after pauses of at most a minute.
	Reread   bool
	Message  string    // one sentence for people
	Reason   Reason    // of StepResign
	Withdraw bool      // of StepResign
	Blockers []Blocker // of StepAwait, and of StepHold by HoldForNewer
	Work     Work      // of StepReconcile; of StepSurvey only Store and FallbackEntry; of StepHold the objects to keep
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
		if s.Guard.ReplacementRevision != 0 {
			fmt.Fprintf(&b, " replacement=%d", s.Guard.ReplacementRevision)
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

// Outcome is the result of a pass over the objects, as far as the leader's next
// decision needs it.
type Outcome struct {
	// Complete: a last list found all required objects as the bundle wants them,
	// and the mark names only this content, with firstDone.
	Complete bool
	// Owed counts the objects whose removal waits (docs/protocol-objects.md#removals).
	Owed int
	// HighestEpoch is the highest content epoch in the mark. An epoch that other
	// content uses counts as one higher.
	HighestEpoch int64
	// Unsure is when the newest write was given up with an unknown outcome: it may
	// land until DrainTime after that. It counts also where the pass failed. Zero:
	// all outcomes are known.
	Unsure time.Time
	// Unfounded: the work does not rest on the mark as it is now. It was the first
	// reconciliation, and the mark contains firstDone (Work.First); or its content
	// epoch is too high (Work.EpochTooHigh). Nothing was written; the leader decides
	// again.
	Unfounded bool
	// ForeignStore is the store ID on the parent if it is not the work's. Nothing
	// was written.
	ForeignStore string
}
