package election

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// job is a survey, a pass, or keeping the objects after a pass. A nil job is none.
type job struct {
	step   protocol.Step
	cancel context.CancelFunc
	done   chan struct{} // closed when the fields below are set

	mark    protocol.Mark
	outcome protocol.Outcome
	err     error
}

// finished returns a channel that closes when the job ends; nil: there is no job.
func (j *job) finished() <-chan struct{} {
	if j == nil {
		return nil
	}
	return j.done
}

// hasEnded reports whether there is a job, and it has ended.
func (j *job) hasEnded() bool {
	select {
	case <-j.finished():
		return true
	default:
		return false
	}
}

// keeps reports whether the job keeps objects: it does not end by itself.
func (j *job) keeps() bool { return j != nil && j.step.Kind == protocol.StepHold }

func (j *job) run(ctx context.Context, applier Applier, lease func() time.Time, quiet time.Time) {
	switch j.step.Kind {
	case protocol.StepSurvey:
		j.mark, j.err = applier.Survey(ctx, j.step.Work, quiet)
	case protocol.StepHold:
		j.outcome, j.err = applier.Keep(ctx, j.step.Work, lease)
	default:
		j.outcome, j.err = applier.Reconcile(ctx, j.step.Work, lease, quiet)
	}
}

// hold makes sure that the objects are kept as the step's work left them, if the
// step contains work. After that job ended, the objects are not kept until the
// next pass.
func (l *leadership) hold(ctx context.Context, step protocol.Step) {
	if step.Reread {
		l.reread(ctx, step)
		return
	}
	if l.job.keeps() && l.job.step.Work == step.Work {
		return
	}
	l.stop()
	l.e.setState(func(s State) State { s.Working = false; return s })
	if l.stuck || l.clock.lapsed || step.Work.Content == (protocol.Content{}) {
		return
	}
	l.begin(ctx, step, time.Time{})
}

// reread reads the mark again on which a step rests, after a pause.
func (l *leadership) reread(ctx context.Context, step protocol.Step) {
	if l.job != nil && l.job.step.Kind == protocol.StepSurvey && l.job.step.Work == step.Work {
		return
	}
	l.stop()
	l.e.setState(func(s State) State { s.Working = false; return s })
	if l.stuck || !l.clock.rereadDue() {
		return
	}
	step.Kind = protocol.StepSurvey
	l.begin(ctx, step, l.quiet(protocol.Content{}))
}

// work makes sure that the step's survey or pass runs. A job of the same step goes
// on; a job of another step is stopped first. After a failure it waits.
func (l *leadership) work(ctx context.Context, step protocol.Step) {
	if l.job != nil && l.job.step.Kind == step.Kind && l.job.step.Work == step.Work {
		return
	}
	l.stop()
	if l.stuck || !l.clock.jobs.due(l.clock.now) {
		return
	}
	l.clock.jobBegan()
	if step.Kind == protocol.StepReconcile {
		l.mark = l.mark.With(step.Work.Content) // as the pass is about to write it
		if l.progress.Finished != step.Work.Content {
			l.progress.Finished = protocol.Content{} // the pass is about to apply other content
		}
	}
	l.begin(ctx, step, l.quiet(step.Work.Content))
	l.e.setState(func(s State) State { s.Working = true; return s })
}

// begin starts the job of a step.
func (l *leadership) begin(ctx context.Context, step protocol.Step, quiet time.Time) {
	jobCtx, cancel := context.WithCancel(ctx)
	j := &job{step: step, cancel: cancel, done: make(chan struct{})}
	l.job = j
	l.trace(trace.Event{Begin: &trace.Begin{Kind: step.Kind, Work: step.Work, Quiet: l.sinceConfirmed(quiet)}})
	go func() {
		defer close(j.done)
		j.run(jobCtx, l.e.cfg.Applier, l.session.ValidUntil, quiet)
	}()
}

// stopTimeout is how long a cancelled job may take to end. Its requests end with
// their context, so this is ample.
const stopTimeout = 15 * time.Second

// stop cancels the job and waits for its end. Its result is not used. A job that
// does not end leaves the leadership stuck: nothing may run beside it.
func (l *leadership) stop() {
	if l.job == nil {
		return
	}
	l.job.cancel()
	select {
	case <-l.job.done:
		l.noteOutcome(l.job)
		l.traceEnd(l.job, false)
	case <-time.After(stopTimeout):
		l.stuck = true
	}
	l.job = nil
}

// collect takes the result of the job, if there is one and it ended.
func (l *leadership) collect() {
	if !l.job.hasEnded() {
		return
	}
	j := l.job
	j.cancel()
	l.job = nil
	l.noteOutcome(j)
	l.traceEnd(j, true)
	if j.keeps() {
		l.e.cfg.Log.Info("a full pass is due", "in", l.clock.lapse(), "err", j.err)
		return
	}
	problem := ""
	switch {
	case j.err != nil:
		problem = j.err.Error()
		log := l.e.cfg.Log.Warn
		if problem == l.e.state.Get().Problem {
			log = l.e.cfg.Log.Debug // it was logged when it began
		}
		log("pass failed, trying again", "step", j.step.Kind.String(), "err", j.err)
		if l.clock.jobs.failed(); errors.Is(j.err, ErrNotDue) {
			l.clock.apiWorked()
		}
	case j.step.Kind == protocol.StepSurvey:
		l.mark = j.mark
		l.progress.Predecessors = l.progress.Predecessors.Surveyed(j.mark)
		l.clock.surveyed()
	default:
		problem = l.collectPass(j)
	}
	l.e.setState(func(s State) State { s.Working, s.Problem = false, problem; return s })
}

// collectPass takes the outcome of a pass that could be made, and returns why it is
// not complete; empty: it is, or was unfounded.
func (l *leadership) collectPass(j *job) (problem string) {
	content := j.step.Work.Content
	l.mark = l.mark.After(content, j.outcome)
	switch {
	case j.outcome.ForeignStore != "":
		l.clock.surveyed()
	case j.outcome.Unfounded:
		l.clock.jobs.failed()
		l.clock.apiWorked()
	case !j.outcome.Complete:
		l.failing = content
		l.clock.jobs.failed()
		l.clock.apiWorked()
		return "some objects could not be applied"
	default:
		l.failing = protocol.Content{}
		l.progress.Finished, l.progress.Owed = content, j.outcome.Owed
		l.clock.passCompleted(l.e.cfg.ResyncInterval)
		l.e.yield.passCompleted()
	}
	return ""
}
