package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
)

var errRefused = errors.New("connection refused")

// A leader whose API is unreachable yields to another node, and leads again when
// the API answers.
func TestElection_yields(t *testing.T) {
	w := newWorld(t)
	broken := newAPI(t)
	broken.expect("", failsWith(errRefused))
	a := w.start("a", "1.1.0", options{api: broken, yieldAfter: time.Second})
	a.awaitState(protocol.Withdrawn)
	b := w.start("b", "1.0.0", options{})
	b.awaitStatus(protocol.Done, "1.0.0")
	broken.works()
	a.awaitStatus(protocol.Done, "1.1.0")
	b.awaitState(protocol.Ineligible)
}

// An API that hangs without an error is unreachable as well.
func TestElection_yieldsWhenTheAPIHangs(t *testing.T) {
	w := newWorld(t)
	hangs := newAPI(t)
	hangs.expect("reconcile", blocksUntil(make(chan struct{})))
	a := w.start("a", "1.1.0", options{api: hangs, yieldAfter: time.Second})
	hangs.awaitCalls(t, "reconcile", 1)
	a.awaitState(protocol.Withdrawn)
	hangs.awaitCalls(t, cancelled, 1)
}

const yieldAfter = 30 * time.Second

// yieldWorld is a leader's jobs and clock, without etcd.
type yieldWorld struct {
	*testing.T
	api *api
	l   *leadership
}

func newYieldWorld(t *testing.T) *yieldWorld {
	a := newAPI(t)
	e := New(Config{Local: event.New(protocol.Local{}), Applier: applier{a, "a"}, YieldAfter: yieldAfter, Log: slog.New(slog.DiscardHandler)})
	return &yieldWorld{t, a, e.newLeadership(nil, "", 1)}
}

// untilYield makes rounds that ask for a pass, until the leader would yield, and
// returns when; at most an hour.
func (w *yieldWorld) untilYield() time.Duration {
	w.Helper()
	began := time.Now()
	step := protocol.Step{Kind: protocol.StepReconcile, Work: protocol.Work{LeaderEpoch: 1}}
	for time.Since(began) < time.Hour {
		w.l.beginRound()
		if w.l.progressNow().APIGone {
			break
		}
		w.l.work(w.Context(), step)
		next := w.l.clock.next(w.l.e.cfg.Applier.Answered(), began.Add(time.Hour))
		waitUntil(w.Context(), next, []<-chan struct{}{w.l.job.finished()})
	}
	w.l.stop()
	return time.Since(began)
}

func TestLeadership_yields(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want time.Duration
	}{
		{"after YieldAfter without an answer", errRefused, yieldAfter},
		{"never when passes are not due", fmt.Errorf("%w: the bundle changed", ErrNotDue), time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newYieldWorld(t)
				w.api.expect("reconcile", failsWith(tt.err))
				if got := w.untilYield(); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				if n := w.api.count("reconcile"); n < 5 {
					t.Errorf("the pass was tried %d times only", n)
				}
			})
		})
	}
}

// A long pass is no reason to yield while the API answers, and is one yieldAfter
// after its last answer.
func TestLeadership_yieldsDuringALongPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newYieldWorld(t)
		w.api.expect("reconcile", blocksUntil(make(chan struct{})))
		const answers, every = 60, 20 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for range answers {
				backoff.Sleep(ctx, every)
				w.api.answer()
			}
		}()
		if got, want := w.untilYield(), answers*every+yieldAfter; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := w.api.count("reconcile") - w.api.count(cancelled); n != 1 {
			t.Errorf("got %d passes, want one", n)
		}
	})
}

// The job has ended, and the deadline has passed, when the round begins: the job's
// answer counts.
func TestLeadership_collectsBeforeItYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newYieldWorld(t)
		released := make(chan struct{})
		w.api.expect("reconcile", blocksUntil(released), failsWith(ErrNotDue))
		w.l.beginRound()
		w.l.work(t.Context(), protocol.Step{Kind: protocol.StepReconcile, Work: protocol.Work{LeaderEpoch: 1}})
		backoff.Sleep(t.Context(), yieldAfter)
		close(released)
		synctest.Wait()
		if w.l.beginRound(); w.l.progressNow().APIGone {
			t.Error("the leader yields for an API that a job has just found reachable")
		}
	})
}

// Each withdrawal makes the next campaign wait longer, until a pass is complete.
func TestYield_pauses(t *testing.T) {
	y := New(Config{Local: event.New(protocol.Local{})}).yield
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		y.withdraw(protocol.Eligibility{})
		if got := y.pauses.Pause(); got != want || !y.withdrawn {
			t.Errorf("got a pause of %s, want %s", got, want)
		}
	}
	if y.passCompleted(); y.pauses.Pause() != 0 {
		t.Errorf("after a complete pass: got a pause of %s", y.pauses.Pause())
	}
}

// A node that has withdrawn shows why, for as long as it lasts and during the pause
// before it campaigns again; the log has it without a line for each attempt.
func TestElection_withdrawnSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newYieldWorld(t)
		e := w.l.e
		var lines atomic.Int64
		e.cfg.Log = slog.New(countingHandler{slog.DiscardHandler, &lines})
		w.api.expect("", failsWith(errRefused))
		problem := protocol.Eligibility{Reason: protocol.APIRefused, Message: "user weak is refused"}
		met := event.New(problem)
		e.cfg.APIProblem = met.Get
		began := time.Now()
		e.yield.withdraw(e.apiProblem(nil))
		e.setState(func(s State) State { s.Election, s.Eligibility = protocol.Withdrawn, e.yield.problem; return s })
		done := make(chan error, 1)
		go func() { done <- e.awaitAPI(t.Context()) }()
		backoff.Sleep(t.Context(), 10*time.Minute)
		if s := e.state.Get(); s.Eligibility != problem || !s.Since.Equal(began) {
			t.Errorf("got %+v since %s, want %+v since %s", s.Eligibility, s.Since, problem, began)
		}
		if n := lines.Load(); n > 10 {
			t.Errorf("%d lines in the log", n)
		}
		problem.Message = "connection refused"
		met.Set(problem)
		backoff.Sleep(t.Context(), 2*time.Second)
		if got := e.state.Get().Eligibility.Message; got != problem.Message {
			t.Errorf("got %q, want the newest problem", got)
		}
		w.api.works()
		if err := <-done; err != nil || e.yield.withdrawn {
			t.Errorf("got %v, withdrawn %t", err, e.yield.withdrawn)
		}
		if got, want := e.state.Get().Eligibility.Message, "its kube-apiserver can be used again; the node campaigns again in 1s; it withdrew because connection refused"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// The metric has since when a node has withdrawn, and 0 when it no longer has.
func TestElection_withdrawnTimestamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newYieldWorld(t).l.e
		began := float64(time.Now().Unix())
		become := func(next protocol.ElectionState, message string) float64 {
			e.setState(func(s State) State { s.Election, s.Eligibility.Message = next, message; return s })
			return testutil.ToFloat64(e.metrics.withdrawn)
		}
		if got := become(protocol.Leading, ""); got != 0 {
			t.Errorf("leading: got %v, want 0", got)
		}
		if got := become(protocol.Withdrawn, "connection refused"); got != began {
			t.Errorf("withdrawn: got %v, want %v", got, began)
		}
		backoff.Sleep(t.Context(), time.Minute)
		if got := become(protocol.Withdrawn, "user weak is refused"); got != began {
			t.Errorf("withdrawn for another reason: got %v, want %v", got, began)
		}
		if got := become(protocol.Campaigning, ""); got != 0 {
			t.Errorf("campaigning: got %v, want 0", got)
		}
	})
}

// countingHandler counts the lines of a log from Info on.
type countingHandler struct {
	slog.Handler
	lines *atomic.Int64
}

func (h countingHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h countingHandler) Handle(context.Context, slog.Record) error { h.lines.Add(1); return nil }
