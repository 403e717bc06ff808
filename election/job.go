package election

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// job is a survey or a pass that is under way. A nil job is none.
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
	jobCtx, cancel := context.WithCancel(ctx)
	j := &job{step: step, cancel: cancel, done: make(chan struct{})}
	l.job = j
	if step.Kind == protocol.StepReconcile {
		l.mark = l.mark.With(step.Work.Content) // as the pass is about to write it
		if l.progress.Finished != step.Work.Content {
			l.progress.Finished = protocol.Content{} // other content is about to be there
		}
	}
	quiet := l.quiet(step.Work.Content)
	go func() {
		defer close(j.done)
		j.run(jobCtx, l.e.cfg.Applier, l.session.ValidUntil, quiet)
	}()
	l.e.setState(func(s State) State { s.Working = true; return s })
}

func (j *job) run(ctx context.Context, applier Applier, lease func() time.Time, quiet time.Time) {
	switch j.step.Kind {
	case protocol.StepSurvey:
		j.mark, j.err = applier.Survey(ctx, j.step.Work, quiet)
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
	if j.outcome.Unsure {
		l.noteUnsure(j.step.Work.Content)
	}
}

// collect takes over what the finished job came to.
func (l *leadership) collect() {
	j := l.job
	j.cancel()
	l.job = nil
	l.took(j)
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
		l.due = time.Now().Add(l.e.cfg.ResyncInterval)
		l.e.yield.worked()
		l.succeeded()
	}
	l.e.setState(func(s State) State { s.Working, s.Problem = false, problem; return s })
}

func (l *leadership) succeeded() {
	l.retryAt, l.wait, l.tryingSince = time.Time{}, 0, time.Time{}
}

func (l *leadership) failed() {
	l.wait = min(max(2*l.wait, minJobPause), maxJobPause)
	l.retryAt = time.Now().Add(l.wait)
}
