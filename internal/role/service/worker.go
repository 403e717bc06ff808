package service

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
)

const (
	// The pauses before a service is started again.
	minPause = 200 * time.Millisecond
	maxPause = 30 * time.Second
	// goodRun is how long an instance must run after it was first ready, to reset the pause.
	goodRun = time.Minute
	// settleTime is how long an instance without a probe must run until it is ready: one that ends at
	// once, for example because of a wrong flag, must not open the gate.
	settleTime = 100 * time.Millisecond
)

// worker keeps one service running.
type worker struct {
	s       *Supervisor
	service Service
	cancel  context.CancelFunc
	done    chan struct{} // closed when the service is stopped

	stopping bool        // read and written by Run's goroutine
	exit     driver.Exit // the last one; read after done
	// The first attempt creates driver, because an attempt contains panics.
	driver driver.Driver
}

// start starts a worker. Only stop ends its context: Run decides the order in which services stop.
func (s *Supervisor) start(ctx context.Context, svc Service) *worker {
	workerCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &worker{s: s, service: svc, cancel: cancel, done: make(chan struct{})}
	s.change(svc.Name, func(status *Status) {
		if !status.of.Equal(svc) { // the history belongs to another program
			status.Restarts, status.LastExit, status.LastLines = 0, "", []string{}
		}
		status.Phase, status.Ready, status.wasReady, status.of = Starting, false, false, svc
	})
	go func() {
		defer s.ended.Set(struct{}{})
		defer close(w.done)
		w.run(workerCtx, ctx)
	}()
	return w
}

// stop asks a worker to stop its service.
func (s *Supervisor) stop(w *worker) {
	w.stopping = true
	s.log.Info("service stops", "service", w.service.Name, "timeout", w.service.StopTimeout)
	s.change(w.service.Name, func(status *Status) { status.Phase, status.Ready, status.Problem = Stopping, false, "" })
	w.cancel()
}

// set changes the status of the service. While the service is being stopped, set does nothing: only
// stopped changes the status.
func (w *worker) set(change func(*Status)) {
	lines := w.lines()
	w.s.change(w.service.Name, func(status *Status) {
		if status.Phase == Stopping {
			return
		}
		change(status)
		status.LastLines = lines
	})
}

// run runs the service until ctx ends. all is the context of Run: if only this service is stopped,
// run returns when the service has ended.
func (w *worker) run(ctx, all context.Context) {
	pauses := backoff.Backoff{First: minPause, Max: maxPause}
	for {
		a := &attempt{w: w}
		w.exit = a.run(ctx)
		if ctx.Err() != nil {
			break
		}
		if a.good() {
			pauses.Reset()
		}
		if w.over() {
			break
		}
		pause := pauses.Next()
		w.s.log.Warn("service ended", "service", w.service.Name, "reason", w.exit.Reason, "pause", pause)
		w.set(func(st *Status) { st.Phase, st.Ready, st.LastExit = BackOff, false, w.exit.Reason })
		if !backoff.Sleep(ctx, pause) {
			// The driver may not know whether an instance of an earlier sidecar runs.
			w.exit = (&attempt{w: w}).run(ctx) // starts nothing, and stops what runs
			break
		}
		if w.over() {
			break
		}
		w.set(func(st *Status) { st.Phase, st.Restarts = Starting, st.Restarts+1 })
	}
	for w.exit.StillRuns && all.Err() == nil {
		w.s.log.Error("service not stopped", "service", w.service.Name, "reason", w.exit.Reason)
		w.stopped(Stopping)
		if !backoff.Sleep(all, maxPause) {
			break
		}
		w.exit = (&attempt{w: w}).run(ctx) // starts nothing, and stops what runs
	}
	w.stopped(Stopped)
	w.s.log.Info("service stopped", "service", w.service.Name, "reason", w.exit.Reason)
}

// over reports whether the service ended for good because of EndStarts.
func (w *worker) over() bool { return w.s.final.Get() && !w.exit.StillRuns }

// stopped records that the service ended, or why it still runs.
func (w *worker) stopped(phase Phase) {
	lines := w.lines()
	w.s.change(w.service.Name, func(status *Status) {
		status.Phase, status.Ready, status.LastLines = phase, false, lines
		if w.exit.StillRuns { // otherwise it ended because this sidecar stopped it, which is no fault
			status.Problem = w.exit.Reason
		}
	})
}

// lines returns the newest lines of the service's output, if they may be shown; never nil.
func (w *worker) lines() (lines []string) {
	lines = []string{}
	if p := w.service.Process; w.driver == nil || p != nil && p.Output.Status == StatusNone {
		return lines
	}
	defer func() {
		if p := recover(); p != nil {
			w.panicked("read its output", p)
		}
	}()
	return append(lines, w.driver.LastLines()...)
}

// panicked logs a panic, and returns it as a reason.
func (w *worker) panicked(where string, p any) string {
	w.s.log.Error("service panicked", "service", w.service.Name, "where", where, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return fmt.Sprintf("panic of the driver: %v", p)
}

// attempt is one instance, or several that the driver replaced by itself.
type attempt struct {
	w *worker
	// The driver, which calls running, and the probe write the fields below.
	mu      sync.Mutex
	readyAt time.Time // zero: it was never ready
	count   int       // instances
	cancel  context.CancelFunc
	probes  sync.WaitGroup
}

// run runs the driver once. A panic is the end of the attempt, and the instance may still run.
func (a *attempt) run(ctx context.Context) (exit driver.Exit) {
	defer a.endProbe()
	defer func() {
		if p := recover(); p != nil {
			exit = driver.Exit{Reason: a.w.panicked("run", p), StillRuns: true}
		}
	}()
	if a.w.driver == nil {
		a.w.driver = a.w.s.cfg.NewDriver(a.w.service)
	}
	return a.w.driver.Run(ctx, func() { a.running(ctx) })
}

// running records that a new instance runs, and starts to probe it.
func (a *attempt) running(ctx context.Context) {
	a.endProbe()
	a.count++
	again := min(a.count-1, 1)
	a.w.s.log.Info("service started", "service", a.w.service.Name)
	config := a.w.service.Readiness
	a.w.set(func(st *Status) {
		st.Phase, st.Ready, st.Problem = Running, false, ""
		st.Restarts += again
	})
	probeCtx, cancel := context.WithCancel(ctx)
	a.cancel = cancel
	if config == nil {
		a.probes.Go(func() { a.settle(probeCtx) })
		return
	}
	a.probes.Go(func() { a.probe(probeCtx, *config) })
}

// endProbe ends the probe of the previous instance. The probe reports nothing afterwards.
func (a *attempt) endProbe() {
	if a.cancel != nil {
		a.cancel()
	}
	a.probes.Wait()
}

// settle records after settleTime that an instance without a probe is ready, unless ctx ends
// before.
func (a *attempt) settle(ctx context.Context) {
	if !backoff.Sleep(ctx, settleTime) {
		return
	}
	a.ready()
	a.w.set(func(st *Status) { st.Ready = true })
}

// probe probes until ctx ends. A panic of the probe counts as a failed probe.
func (a *attempt) probe(ctx context.Context, config readiness.Config) {
	pauses := backoff.Backoff{First: minPause, Max: maxPause}
	for a.follow(ctx, config); ctx.Err() == nil; a.follow(ctx, config) {
		pauses.Sleep(ctx)
	}
}

// follow returns when ctx ends, or after a panic.
func (a *attempt) follow(ctx context.Context, config readiness.Config) {
	defer func() {
		if p := recover(); p != nil {
			reason := a.w.panicked("probe", p)
			a.w.set(func(st *Status) { st.Ready, st.Problem = false, reason })
		}
	}()
	readiness.Follow(ctx, config, a.w.s.cfg.NewProbe(a.w.service), func(r readiness.Result) {
		if r.Ready {
			a.ready()
		}
		a.w.s.log.Info("service readiness changed", "service", a.w.service.Name, "ready", r.Ready, "problem", r.Problem)
		a.w.set(func(st *Status) { st.Ready, st.Problem = r.Ready, r.Problem })
	})
}

func (a *attempt) ready() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.readyAt.IsZero() {
		a.readyAt = time.Now()
	}
}

// good reports whether the attempt ran at least goodRun after it was first ready. Call it after
// run.
func (a *attempt) good() bool { return !a.readyAt.IsZero() && time.Since(a.readyAt) >= goodRun }
