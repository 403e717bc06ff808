package election

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// job is a survey or a pass that is under way, or the objects being kept after
// it. A nil job is none.
type job struct {
	step   protocol.Step
	cancel context.CancelFunc
	done   chan struct{} // closed when what follows is set

	mark    protocol.Mark
	outcome protocol.Outcome
	err     error
}

// finished returns a channel that closes when the job has ended, and one that
// never does where there is no job.
func (j *job) finished() <-chan struct{} {
	if j == nil {
		return nil
	}
	return j.done
}

// keeps reports whether the job has no end of its own.
func (j *job) keeps() bool { return j != nil && j.step.Kind == protocol.StepHold }

// hold sees to it that the objects are kept as the step's work left them, if it
// has one. Once that has ended, nothing keeps them before the next pass.
func (l *leadership) hold(ctx context.Context, step protocol.Step) {
	if l.job.keeps() && l.job.step.Work == step.Work {
		return
	}
	l.stop()
	l.e.setState(func(s State) State { s.Working = false; return s })
	if l.wedged || l.lapsed || step.Work.Content == (protocol.Content{}) {
		return
	}
	l.begin(ctx, step, time.Time{})
}

// begin starts the job of a step.
func (l *leadership) begin(ctx context.Context, step protocol.Step, quiet time.Time) {
	jobCtx, cancel := context.WithCancel(ctx)
	j := &job{step: step, cancel: cancel, done: make(chan struct{})}
	l.job = j
	go func() {
		defer close(j.done)
		j.run(jobCtx, l.e.cfg.Applier, l.session.ValidUntil, quiet)
	}()
}

// work sees to it that the step's job is under way: a job of the same step goes
// on, one of another step is stopped first. After a failure it waits.
func (l *leadership) work(ctx context.Context, step protocol.Step) {
	if l.job != nil && l.job.step.Kind == step.Kind && l.job.step.Work == step.Work {
		return
	}
	l.stop()
	if l.wedged || l.now.Before(l.retryAt) {
		return
	}
	if l.tryingSince.IsZero() {
		l.tryingSince = l.now
	}
	if step.Kind == protocol.StepReconcile {
		l.mark = l.mark.With(step.Work.Content) // as the pass is about to write it
		if l.progress.Finished != step.Work.Content {
			l.progress.Finished = protocol.Content{} // other content is about to be there
		}
	}
	l.begin(ctx, step, l.quiet(step.Work.Content))
	l.e.setState(func(s State) State { s.Working = true; return s })
}

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

// stopLimit is how long a cancelled job may take: its requests end with their
// context, so this is ample.
const stopLimit = 15 * time.Second

// stop cancels the job and waits for its end; what it came to is not used. A
// job that does not end is noted in wedged: nothing may be done beside it.
func (l *leadership) stop() {
	if l.job == nil {
		return
	}
	l.job.cancel()
	select {
	case <-l.job.done:
		l.took(l.job)
	case <-time.After(stopLimit):
		l.wedged = true
	}
	l.job = nil
}

// took notes what a job that has ended may have left behind.
func (l *leadership) took(j *job) {
	if at := j.outcome.Unsure; !at.IsZero() {
		l.noteUnsure(j.step.Work.Content, at)
	}
}

// collect takes over what the finished job came to.
func (l *leadership) collect() {
	j := l.job
	j.cancel()
	l.job = nil
	l.took(j)
	if j.keeps() {
		l.lapse(j.err)
		return
	}
	problem := ""
	switch {
	case j.err != nil:
		problem = j.err.Error()
		l.e.cfg.Log.Warn("pass not done, trying again", "step", j.step.Kind.String(), "err", j.err)
		l.failed()
		if errors.Is(j.err, ErrNotDue) {
			l.tryingSince = time.Time{}
		}
	case j.step.Kind == protocol.StepSurvey:
		l.mark = j.mark
		l.progress.Past = l.progress.Past.Surveyed(j.mark)
		l.succeeded()
	default:
		l.mark = l.mark.After(j.step.Work.Content, j.outcome)
		if j.outcome.Unfounded {
			l.succeeded()
			break
		}
		if !j.outcome.Complete {
			problem = "some objects could not be applied"
			l.tryingSince = time.Time{}
			l.failed()
			break
		}
		l.progress.Finished, l.progress.Owed = j.step.Work.Content, j.outcome.Owed
		l.due, l.lapsed = time.Now().Add(l.e.cfg.ResyncInterval), false
		l.e.yield.worked()
		l.succeeded()
	}
	l.e.setState(func(s State) State { s.Working, s.Problem = false, problem; return s })
}

// lapse makes a full pass due, because the objects are no longer kept. Passes
// that do not help for long follow each other ever more slowly.
func (l *leadership) lapse(err error) {
	now := time.Now()
	if now.Sub(l.lapsedAt) > lapseMemory {
		l.lapseWait = 0
	}
	if due := now.Add(l.lapseWait); due.Before(l.due) {
		l.due = due
	}
	l.e.cfg.Log.Info("a full pass is due", "in", l.lapseWait, "err", err)
	l.lapsed, l.lapsedAt = true, now
	l.lapseWait = min(max(2*l.lapseWait, minJobPause), maxJobPause)
}

func (l *leadership) succeeded() {
	l.retryAt, l.wait, l.tryingSince = time.Time{}, 0, time.Time{}
}

func (l *leadership) failed() {
	l.wait = min(max(2*l.wait, minJobPause), maxJobPause)
	l.retryAt = time.Now().Add(l.wait)
}
