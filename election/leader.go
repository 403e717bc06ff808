package election

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// leadership is one term of this leader. All of it belongs to Run's goroutine.
type leadership struct {
	e       *Election
	session *etcd.Session
	key     string
	epoch   int64
	// confirmed is when a transaction had found the key to be this leader's
	// (DESIGN 4.6); zero: none has.
	confirmed time.Time
	status    protocol.StatusView // of the newest snapshot
	unsure    []unsure

	mark     protocol.Mark
	progress protocol.Progress // but for what the clock says
	due      time.Time         // of the next full pass; zero: none was finished yet
	absences absences

	// lapsed: the objects are not kept, and were after the last pass.
	lapsed    bool
	lapsedAt  time.Time     // when that last happened
	lapseWait time.Duration // before the full pass that it asks for, the next time

	now     time.Time // of this turn: one clock for all that is decided in it
	job     *job
	wedged  bool          // the last job did not end though it was cancelled
	retryAt time.Time     // no job before; zero: at once
	wait    time.Duration // the pause after the last failure
	// tryingSince is the start of the first job since the API could last be
	// worked with; zero: no job has begun since.
	tryingSince time.Time
}

const (
	minJobPause = 500 * time.Millisecond
	maxJobPause = 30 * time.Second
	// etcdPause is the pause after a request to etcd that was not answered.
	etcdPause = 100 * time.Millisecond
	// lapseMemory is after how long one more full pass out of turn is made at
	// once again.
	lapseMemory = 5 * time.Minute
)

// lead runs the leader's loop: gather the facts, ask protocol.Next, carry out
// the step, wait for a change. It returns nil when the leader has resigned,
// and otherwise why it leads no more. No job of it runs any more then.
func (e *Election) lead(ctx context.Context, s *etcd.Session, key string, epoch int64) (err error) {
	l := &leadership{e: e, session: s, key: key, epoch: epoch}
	defer func() {
		l.stop()
		if l.wedged {
			err = errors.Join(ErrWedged, err)
			return
		}
		l.giveUp(ctx)
	}()
	for !l.wedged {
		changes := l.changes()
		l.now = time.Now()
		s.Beat()
		in, err := l.gather(ctx)
		switch {
		case ctx.Err() != nil:
			return l.ended(context.Cause(ctx))
		case errors.Is(err, ErrLostLeadership):
			return l.ended(err)
		case err != nil:
			// The client shows that etcd is away; the session's end decides
			// how long that may last.
			pause(ctx, etcdPause)
			continue
		}
		l.confirm(&in)
		step := protocol.Next(in)
		l.show(step)
		switch l.execute(ctx, step) {
		case resigned:
			e.metrics.resigned.WithLabelValues(string(step.Reason)).Inc()
			return nil
		case again:
			continue
		case settled:
		}
		if !l.await(ctx, changes) {
			return l.ended(context.Cause(ctx))
		}
	}
	return l.ended(ErrWedged)
}

// confirm takes over a snapshot, which has confirmed the leadership. The first
// one tells of the leaders before.
func (l *leadership) confirm(in *protocol.Input) {
	l.status = in.Status
	if l.confirmed.IsZero() {
		l.confirmed = time.Now()
		l.progress.Past = protocol.PastOf(in.Status, l.e.cfg.Client.Rewound().Get() > 0)
		l.e.metrics.elections.Inc()
		l.e.cfg.Log.Info("elected", "epoch", l.epoch, "past", l.progress.Past.String())
	}
	in.Progress.Past = l.progress.Past
}

// ended notes why a confirmed leadership is over. From then on nobody is told
// that this node leads, while its job is stopped and its lease given back.
func (l *leadership) ended(err error) error {
	l.e.out()
	if l.confirmed.IsZero() {
		return err
	}
	reason := lostReason
	if errors.Is(err, context.Canceled) {
		reason = protocol.ShuttingDown
	}
	l.e.metrics.resigned.WithLabelValues(string(reason)).Inc()
	return err
}

// show publishes the step.
func (l *leadership) show(step protocol.Step) {
	l.e.setState(func(s State) State {
		s.Election, s.Epoch, s.Step, s.Working = protocol.Leading, l.epoch, step, l.job != nil && !l.job.keeps()
		s.Eligibility = protocol.Eligibility{Eligible: true}
		s.Absences = l.absences.shown()
		return s
	})
}

// result says how the loop goes on after a step.
type result int

const (
	settled  result = iota // wait for a change
	again                  // look again at once
	resigned               // leadership is to be given up
)

// execute carries a step out. It branches on the kind alone.
func (l *leadership) execute(ctx context.Context, step protocol.Step) result {
	l.e.metrics.steps.WithLabelValues(step.Kind.String()).Inc()
	switch step.Kind {
	case protocol.StepResign:
		l.stop()
		if step.Withdraw {
			l.e.yield.withdraw()
		}
		return resigned
	case protocol.StepWrite:
		if l.stop(); !l.wedged {
			return l.write(ctx, step)
		}
	case protocol.StepSurvey, protocol.StepReconcile:
		l.work(ctx, step)
	case protocol.StepHold:
		l.hold(ctx, step)
	case protocol.StepAwait, protocol.StepUnset:
		l.stop()
		l.e.setState(func(s State) State { s.Working = false; return s })
	}
	if l.wedged {
		return again // that ends it; a change may be long in coming
	}
	return settled
}

func (l *leadership) write(ctx context.Context, step protocol.Step) result {
	if !l.session.Valid() {
		pause(ctx, etcdPause) // the session is about to end
		return again
	}
	err := l.e.cfg.Store.Write(ctx, l.key, step.Status, step.Guard)
	switch {
	case err == nil:
		l.retryAt, l.wait = time.Time{}, 0
		l.problem("")
		l.e.cfg.Log.Info("status written", "rule", step.Rule, "status", step.Status.String())
	case errors.Is(err, status.ErrGuard):
		l.e.metrics.guards.Inc()
		l.e.cfg.Log.Info("status not written, looking again", "rule", step.Rule, "err", err)
	default:
		l.problem(err.Error())
		l.e.cfg.Log.Warn("status not written, trying again", "err", err)
		pause(ctx, etcdPause)
	}
	return again
}

// problem shows why the newest write did not succeed; empty: it did.
func (l *leadership) problem(text string) {
	l.e.setState(func(s State) State { s.Problem = text; return s })
}

// changes returns what wakes the leader. It is loaded before the facts are
// gathered, so that no change after that is missed.
func (l *leadership) changes() []<-chan struct{} {
	_, fleet := l.e.cfg.Fleet.Load()
	_, status := l.e.cfg.Store.Observed().Load()
	_, local := l.e.cfg.Local.Load()
	_, leader := l.e.leader.Load()
	return []<-chan struct{}{fleet, status, local, leader}
}

// await returns at a change, at the end of the job, or when the clock makes a
// difference, and reports whether ctx still stands.
func (l *leadership) await(ctx context.Context, changes []<-chan struct{}) bool {
	beat := time.NewTicker(l.session.TTL() / 3)
	defer beat.Stop()
	clock := time.NewTimer(l.untilClock())
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-beat.C:
			l.session.Beat()
			continue
		case <-changes[0]:
		case <-changes[1]:
		case <-changes[2]:
		case <-changes[3]:
		case <-l.job.finished():
			l.collect()
		case <-clock.C:
		}
		return true
	}
}

// untilClock returns how long it is until time alone makes a difference: until
// what this turn, at l.now, still found to be in the future. It may be over by
// now.
func (l *leadership) untilClock() time.Duration {
	next := time.Duration(1<<63 - 1)
	until := func(at time.Time) {
		if at.After(l.now) {
			next = min(next, time.Until(at))
		}
	}
	for _, at := range []time.Time{l.retryAt, l.due, l.goneAt()} {
		until(at)
	}
	for _, c := range l.absences.nodes {
		until(c.Ends)
	}
	return max(0, next)
}

// goneAt returns when the API will have been out of reach for too long, unless
// it answers; zero: nothing is asked of it.
func (l *leadership) goneAt() time.Time {
	if l.tryingSince.IsZero() {
		return time.Time{}
	}
	since := l.tryingSince
	if answered := l.e.cfg.Applier.Answered(); answered.After(since) {
		since = answered
	}
	return since.Add(l.e.yield.after)
}
