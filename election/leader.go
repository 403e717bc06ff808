package election

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/trace"
)

// leadership is one term of this leader. All of it belongs to Run's goroutine.
type leadership struct {
	e        *Election
	session  *etcd.Session
	key      string
	epoch    int64
	rewinds  int                 // how often the store went back before this node became a candidate
	status   protocol.StatusView // of the newest snapshot
	unknown  status.Unknown      // in status; a guard with its revision guards both
	mark     protocol.Mark
	progress protocol.Progress // without the facts that depend on the clock
	absences absences
	decoder  fleet.Decoder
	pending  []pendingRequest
	failing  protocol.Content // of the last pass, if that was not complete
	writes   backoff.Backoff  // after writes of the status that failed
	reads    backoff.Backoff  // after snapshots that failed
	clock    deadlines
	job      *job
	restored bool // the first status may be one that a restore brought back
	stuck    bool // the last job did not end although it was cancelled
	deleted  bool // etcd confirmed that it deleted the key, together with the last write of the status
}

func (e *Election) newLeadership(s *etcd.Session, key string, epoch int64) *leadership {
	return &leadership{
		e: e, session: s, key: key, epoch: epoch, writes: e.etcdPauses(), reads: e.etcdPauses(), clock: newDeadlines(e.cfg.YieldAfter),
	}
}

// etcdPause is the first pause after a request that etcd did not answer.
const etcdPause = 100 * time.Millisecond

// lead runs the leader's loop: gather the facts, ask protocol.Next, carry out the
// step, wait for a change. It returns nil when the leader resigned, and otherwise
// why the leadership ended. No job of it runs any more then, except after
// ErrJobStuck.
func (l *leadership) lead(ctx context.Context) (err error) {
	l.trace(trace.Event{Elected: &trace.Elected{Epoch: l.epoch, DrainTime: l.e.drainTime}})
	defer func() { l.trace(trace.Event{Over: &trace.Over{Stuck: l.stuck}}) }()
	defer func() {
		l.stop()
		if l.stuck {
			err = errors.Join(ErrJobStuck, err)
			return
		}
		l.giveUp(ctx)
	}()
	for !l.stuck {
		changes := l.changes()
		l.beginRound()
		l.session.Beat()
		in, err := l.gather(ctx)
		switch {
		case ctx.Err() != nil:
			return l.ended(context.Cause(ctx))
		case errors.Is(err, errLostLeadership), errors.Is(err, errWentBack):
			return l.ended(err)
		case err != nil:
			// The client shows that etcd is unreachable; the end of the session
			// decides how long that may last.
			l.reads.Sleep(ctx)
			continue
		}
		l.reads.Reset()
		l.confirm(&in)
		step := protocol.Next(in)
		l.trace(trace.Event{Round: &trace.Round{Input: in, Step: step, Restored: l.restored}})
		l.show(step, garbageIn(in))
		l.deleteExpired(ctx, in)
		switch l.execute(ctx, step) {
		case leadershipOver:
			l.e.metrics.ended.WithLabelValues(string(step.Reason)).Inc()
			return nil
		case nextRound:
			continue
		case awaitChange:
		}
		if !l.await(ctx, changes) {
			return l.ended(context.Cause(ctx))
		}
	}
	return l.ended(ErrJobStuck)
}

// beginRound reads the clock, and takes the result of a job that ended. Without the
// result the leader could yield for an unreachable API although the job found that
// the API is reachable.
func (l *leadership) beginRound() {
	l.collect()
	l.clock.now = time.Now()
}

// confirm notes a snapshot that confirmed the leadership. The first one shows
// whether former leaders drained.
func (l *leadership) confirm(in *protocol.Input) {
	l.status = in.Status
	if l.clock.confirmed.IsZero() {
		l.clock.confirmed = time.Now()
		l.restored = l.e.isRestored(in.Status)
		l.progress.Predecessors = protocol.DrainStateOf(in.Status, l.restored)
		l.e.metrics.elections.Inc()
		l.e.cfg.Log.Info("elected", "epoch", l.epoch, "predecessors", l.progress.Predecessors.String())
	}
	in.Progress.Predecessors = l.progress.Predecessors
}

// ended counts why a confirmed leadership is over, and passes err on. State no
// longer shows this node as leader then, while its job is stopped and its lease is
// revoked.
func (l *leadership) ended(err error) error {
	l.e.showOut()
	if l.clock.confirmed.IsZero() {
		return err
	}
	reason := lostReason
	if errors.Is(err, context.Canceled) {
		reason = protocol.ShuttingDown
	}
	l.e.metrics.ended.WithLabelValues(string(reason)).Inc()
	return err
}

// garbageIn says which number in the facts is not believed; empty: all are.
func garbageIn(in protocol.Input) string {
	return cmp.Or(in.Status.Warning, protocol.GarbageEpoch(in.Status.Status.ContentEpoch, in.Mark.HighestEpoch))
}

// show publishes the step, and the number in its facts that is not believed.
func (l *leadership) show(step protocol.Step, garbage string) {
	if garbage != "" && garbage != l.e.state.Get().Garbage {
		l.e.cfg.Log.Warn("a number is not believed", "problem", garbage)
	}
	l.e.setState(func(s State) State {
		s.Garbage = garbage
		s.Election, s.Epoch, s.Step, s.Working = protocol.Leading, l.epoch, step, l.job != nil && !l.job.keeps()
		s.Eligibility = protocol.Eligibility{Eligible: true}
		s.Absences = l.absences.shown()
		return s
	})
}

// sequel is how the loop continues after a step.
type sequel int

const (
	awaitChange sequel = iota + 1
	nextRound          // gather again at once
	leadershipOver
)

// execute carries out a step. It branches on the kind alone.
func (l *leadership) execute(ctx context.Context, step protocol.Step) sequel {
	l.e.metrics.steps.WithLabelValues(step.Kind.String()).Inc()
	if !step.Reread {
		l.clock.rereads.reset() // the mark does not hold the leader back
	}
	switch step.Kind {
	case protocol.StepResign:
		l.stop()
		if step.Withdraw {
			l.e.yield.withdraw(l.e.apiProblem(nil))
		}
		return leadershipOver
	case protocol.StepWrite:
		if l.stop(); !l.stuck {
			l.write(ctx, step)
			return nextRound
		}
	case protocol.StepSurvey, protocol.StepReconcile:
		l.work(ctx, step)
	case protocol.StepHold:
		l.hold(ctx, step)
	case protocol.StepAwait, protocol.StepUnset:
		l.stop()
		l.e.setState(func(s State) State { s.Working = false; return s })
	}
	if l.stuck {
		return nextRound // which ends the leadership; the next change may be hours away
	}
	return awaitChange
}

// write writes the step's status. Whether it did or not, the leader reads again.
func (l *leadership) write(ctx context.Context, step protocol.Step) {
	if !l.session.Valid() {
		backoff.Sleep(ctx, etcdPause) // the session is about to end
		return
	}
	l.trace(trace.Event{Write: &trace.Write{Status: step.Status, Guard: step.Guard}})
	err := l.e.cfg.Store.Write(ctx, l.key, status.Value{Status: step.Status, Unknown: l.unknown}, step.Guard)
	switch {
	case err == nil:
		l.writes.Reset()
		if s := step.Status; !l.failing.Same(protocol.Content{Release: s.ContentRelease, Digest: s.Digest}) {
			l.clock.jobs.reset() // other content than the failing one, whatever its content epoch
		}
		l.problem("")
		l.e.cfg.Log.Info("status written", "rule", step.Rule, "status", step.Status.String())
	case errors.Is(err, status.ErrGuard):
		l.e.metrics.guardFailures.Inc()
		l.e.cfg.Log.Info("status not written, reading again", "rule", step.Rule, "err", err)
	default:
		write := l.e.cfg.Log.Warn
		if l.writes.Pause() != 0 {
			write = l.e.cfg.Log.Debug // not the first of a series
		}
		write("status not written, trying again", "err", err)
		l.problem(err.Error())
		l.writes.Sleep(ctx)
	}
}

// problem shows why the newest write failed; empty: it succeeded.
func (l *leadership) problem(text string) {
	l.e.setState(func(s State) State { s.Problem = text; return s })
}

// changes returns the channels that wake the leader. It is called before the
// facts are gathered, so that no later change is missed.
func (l *leadership) changes() []<-chan struct{} {
	c := l.e.cfg
	return event.Changes(c.Fleet, c.Store.Observed(), c.StoreKey, c.Local, l.e.leader, c.Client.Rewound())
}

// await returns at a change, at the end of the job, or when time alone can change
// the decision. It reports whether ctx is still alive.
func (l *leadership) await(ctx context.Context, changes []<-chan struct{}) bool {
	changes = append(changes, l.job.finished())
	next := l.clock.next(l.e.cfg.Applier.Answered(), l.absences.ends()...)
	for {
		beat := time.Now().Add(l.session.TTL() / 3)
		if !next.IsZero() && next.Before(beat) {
			waitUntil(ctx, next, changes)
			return ctx.Err() == nil
		}
		if waitUntil(ctx, beat, changes) || ctx.Err() != nil {
			return ctx.Err() == nil
		}
		l.session.Beat()
	}
}

// waitUntil reports whether one of changes closed before the given instant, and
// while ctx was alive.
func waitUntil(ctx context.Context, at time.Time, changes []<-chan struct{}) bool {
	limited, cancel := context.WithDeadline(ctx, at)
	defer cancel()
	return event.Wait(limited, changes...)
}
