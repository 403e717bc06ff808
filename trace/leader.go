package trace

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

// Leader is one term of a leader: its memory, which decides the events that may
// come next. The zero value is a term that has just begun.
type Leader struct {
	Epoch     int64
	DrainTime time.Duration // 0: requests end with their sender

	Mark     protocol.Mark
	Progress protocol.Progress // without Due and APIGone, which clocks decide
	Seen     bool              // it took a snapshot
	Step     protocol.Step     // of the newest round
	Job      *Begin            // that runs

	Passed bool // a pass of this term was complete

	wrote   bool              // the step was carried out
	due     []protocol.Record // that the newest snapshot lets it delete
	pending []pending
}

// pending is a request of unknown outcome.
type pending struct {
	Content protocol.Content
	Until   time.Duration
}

// round checks a decision.
func (l *Leader) round(r *Round) error {
	if l.Job != nil && (l.Job.Kind != l.Step.Kind && !l.rereads(l.Job) || l.Job.Work != l.Step.Work) {
		return fmt.Errorf("the job %s %s goes on beside the step %s", l.Job.Kind, l.Job.Work.Content, l.Step)
	}
	in := r.Input
	if !l.Seen {
		l.Seen = true
		l.Progress.Predecessors = protocol.DrainStateOf(in.Status, r.Restored)
	}
	want := l.Progress
	want.Due, want.APIGone = in.Progress.Due, in.Progress.APIGone
	step := protocol.Next(in)
	switch {
	case in.Local.Epoch != l.Epoch:
		return fmt.Errorf("it decides in epoch %d, and leads in epoch %d", in.Local.Epoch, l.Epoch)
	case !reflect.DeepEqual(in.Mark, l.Mark):
		return fmt.Errorf("it decides on the mark %+v, and what it has done leaves %+v", in.Mark, l.Mark)
	case in.Progress != want:
		return fmt.Errorf("it decides on the progress %+v, and what it has done leaves %+v", in.Progress, want)
	case in.Progress.Due && !l.Passed:
		return errors.New("a full pass is due before the first was complete")
	case !reflect.DeepEqual(step, r.Step):
		return fmt.Errorf("it decides %s (%q), and the protocol says %s (%q)", r.Step, r.Step.Message, step, step.Message)
	}
	l.Step, l.wrote = step, false
	l.due = noderecord.DeletionsDue(in.Fleet, in.Local.ID)
	return nil
}

// delete checks the deletion of an ephemeral record.
func (l *Leader) delete(d *Delete) error {
	at := slices.IndexFunc(l.due, func(r protocol.Record) bool { return r.ID == d.Record.ID && r.Revision == d.Record.Revision })
	if at < 0 {
		return fmt.Errorf("it deletes the record of %s at revision %d, which is not due in its newest snapshot", d.Record.ID, d.Record.Revision)
	}
	l.due = slices.Delete(l.due, at, at+1)
	return nil
}

// begin checks the start of a job.
func (l *Leader) begin(b *Begin) error {
	works := b.Kind == protocol.StepSurvey || b.Kind == protocol.StepReconcile || b.Kind == protocol.StepHold
	switch {
	case !works || b.Kind != l.Step.Kind && !l.rereads(b) || b.Work != l.Step.Work:
		return fmt.Errorf("it begins %s %+v, and the step is %s", b.Kind, b.Work, l.Step)
	case l.Job != nil:
		return fmt.Errorf("it begins %s while %s runs", b.Kind, l.Job.Kind)
	case b.Kind != protocol.StepHold && b.Quiet < l.quiet(b.Work.Content):
		return fmt.Errorf("requests of others can land until %s after its election, and it expects none after %s", l.quiet(b.Work.Content), b.Quiet)
	}
	l.Job = b
	if b.Kind == protocol.StepReconcile {
		l.Mark = l.Mark.With(b.Work.Content)
		if l.Progress.Finished != b.Work.Content {
			l.Progress.Finished = protocol.Content{}
		}
	}
	return nil
}

// rereads reports whether a job reads the mark again for a step that rests on it.
func (l *Leader) rereads(b *Begin) bool {
	return l.Step.Kind == protocol.StepHold && l.Step.Reread && b.Kind == protocol.StepSurvey
}

// quiet is when no request of a former leader, and none of this one for other
// content, can land any more.
func (l *Leader) quiet(c protocol.Content) time.Duration {
	var at time.Duration
	if l.Progress.Predecessors != protocol.Drained {
		at = l.DrainTime
	}
	for _, p := range l.pending {
		if p.Content != c {
			at = max(at, p.Until)
		}
	}
	return at
}

// end applies the result of a job.
func (l *Leader) end(e *End) error {
	if l.Job == nil || l.Job.Kind != e.Kind || l.Job.Work != e.Work {
		return fmt.Errorf("%s %+v ends, which does not run", e.Kind, e.Work)
	}
	l.Job = nil
	if e.Unsure != 0 {
		l.pending = append(l.pending, pending{e.Work.Content, e.Unsure + l.DrainTime})
	}
	switch {
	case !e.Used || e.Failed || e.Kind == protocol.StepHold:
	case e.Kind == protocol.StepSurvey:
		l.Mark = e.Mark
		l.Progress.Predecessors = l.Progress.Predecessors.Surveyed(e.Mark)
	default:
		l.Mark = l.Mark.After(e.Work.Content, e.Outcome)
		if e.Outcome.Complete && !e.Outcome.Unfounded {
			l.Progress.Finished, l.Progress.Owed = e.Work.Content, e.Outcome.Owed
			l.Passed = true
		}
	}
	return nil
}

// write checks the write of a status.
func (l *Leader) write(w *Write) error {
	switch {
	case l.Step.Kind != protocol.StepWrite || w.Status != l.Step.Status || w.Guard != l.Step.Guard:
		return fmt.Errorf("it writes %s under %+v, and the step is %s", w.Status, w.Guard, l.Step)
	case l.Job != nil:
		return fmt.Errorf("it writes the status while %s runs", l.Job.Kind)
	case l.wrote:
		return errors.New("it writes the status twice for one step")
	}
	l.wrote = true
	return nil
}

// resign checks that a leader may say that it has drained.
func (l *Leader) resign(r *Resign) error {
	f := r.Facts
	want, drained := protocol.Drain(f)
	switch {
	case l.Job != nil:
		return fmt.Errorf("it resigns while %s runs", l.Job.Kind)
	case !l.Seen || f.Epoch != l.Epoch || f.Predecessors != l.Progress.Predecessors:
		return fmt.Errorf("it resigns on %+v, in epoch %d with predecessors %s", f, l.Epoch, l.Progress.Predecessors)
	case f.Waited && r.At < l.DrainTime:
		return fmt.Errorf("it says that it has waited %s after its election", r.At)
	case !drained || r.Status != want:
		return fmt.Errorf("it resigns with %s, and the protocol says %s, %t", r.Status, want, drained)
	}
	for _, p := range l.pending {
		if f.Ended && r.At < p.Until {
			return fmt.Errorf("it says that its requests have ended, and one can land until %s after its election: %s", p.Until, r.At)
		}
	}
	return nil
}
