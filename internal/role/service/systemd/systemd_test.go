package systemd

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
	"github.com/lockstep-dev/lockstep/test/logs"
)

// limit is far above every limit that is tested, so that a slow machine fails no test.
const limit = time.Minute

// service is a driver that runs.
type service struct {
	t      *testing.T
	runs   chan struct{}    // one for each call of running
	exit   chan driver.Exit // room for one
	cancel context.CancelFunc
	log    *logs.Buffer
}

func start(t *testing.T, connect connectFunc, unit string, stopTimeout time.Duration) *service {
	t.Helper()
	s := &service{t: t, runs: make(chan struct{}, 10), exit: make(chan driver.Exit, 1), log: &logs.Buffer{}}
	d := New(Config{Unit: unit, StopTimeout: stopTimeout, Connect: connect, Log: slog.New(slog.NewTextHandler(s.log, nil))})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s.cancel = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.exit <- d.Run(ctx, func() { s.runs <- struct{}{} })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func (s *service) wantRunning() {
	s.t.Helper()
	select {
	case <-s.runs:
	case exit := <-s.exit:
		s.t.Fatalf("it has ended: %+v", exit)
	case <-time.After(limit):
		s.t.Fatalf("not in time: running; log %s", s.log)
	}
}

func (s *service) wantNeverRan() {
	s.t.Helper()
	if len(s.runs) > 0 {
		s.t.Error("running was called")
	}
}

func (s *service) wantExit(want string) {
	s.t.Helper()
	select {
	case exit := <-s.exit:
		if !strings.Contains(exit.Reason, want) || exit.StillRuns {
			s.t.Errorf("got %+v, want a reason with %q", exit, want)
		}
	case <-time.After(limit):
		s.t.Fatalf("not in time: the end; log %s", s.log)
	}
}

func TestRun(t *testing.T) {
	b := newBus(t)
	m := newManager(t, b, testUnit)
	s := start(t, b.dial, testUnit, limit)
	s.wantRunning()
	s.cancel()
	s.wantExit("stopped: unit a@1.service is inactive (dead)")
	if got := m.story(); got != "reset start stop" {
		t.Errorf("got %s", got)
	}
	s = start(t, b.dial, testUnit, limit)
	s.wantRunning()
	m.change("failed", "failed", "exit-code", 3)
	s.wantExit("unit a@1.service is failed (failed): result exit-code, exit status 3; see systemctl status a@1.service")
}

// The answer of systemd to a start is no proof that the unit runs.
func TestRun_doneIsNoProof(t *testing.T) {
	for name, tt := range map[string]struct {
		start func(m *manager)
		want  string
	}{
		"the program is missing, Type=simple": {func(m *manager) {
			m.change("active", "running", "success", 0)
			m.finish("done")
			time.AfterFunc(50*time.Millisecond, func() { m.change("failed", "failed", "exit-code", 203) })
		}, "result exit-code, exit status 203"},
		"no signal arrives, and no result": {func(m *manager) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.state["ActiveState"], m.state["Job"] = dbus.MakeVariant("failed"), dbus.MakeVariant(job{0, "/"})
		}, "is failed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBus(t)
			m := newManager(t, b, testUnit)
			m.behave(func() { m.start = tt.start })
			s := start(t, b.dial, testUnit, limit)
			s.wantExit(tt.want)
			s.wantNeverRan()
		})
	}
}

func TestRun_refused(t *testing.T) {
	b := newBus(t)
	m := newManager(t, b, testUnit)
	m.behave(func() {
		m.refuse["start"] = dbus.NewError("org.freedesktop.systemd1.UnitMasked", []any{"Unit a@1.service is masked."})
	})
	s := start(t, b.dial, testUnit, limit)
	s.wantExit("start unit a@1.service: Unit a@1.service is masked.")
	s.wantNeverRan()
}

// The driver asks whether something is in the way of a new instance after the old one stopped. Then
// nothing starts.
func TestRun_notFree(t *testing.T) {
	b := newBus(t)
	m := newManager(t, b, testUnit)
	inTheWay := func(context.Context) error { return errors.New("another program answers") }
	exit := New(Config{Unit: testUnit, StopTimeout: limit, Connect: b.dial, Free: inTheWay}).Run(t.Context(), func() { t.Error("it runs") })
	if exit.Reason != "another program answers" || exit.StillRuns || strings.Contains(m.story(), "start") {
		t.Errorf("got %+v after %s", exit, m.story())
	}
}

// Without an answer of systemd, nothing says that the unit does not run.
func TestRun_noAnswer(t *testing.T) {
	unreachable := func(context.Context) (*dbus.Conn, error) { return nil, syscall.ECONNREFUSED }
	exit := New(Config{Unit: testUnit, StopTimeout: limit, Connect: unreachable}).Run(t.Context(), func() { t.Error("it was started") })
	if !exit.StillRuns || !strings.HasPrefix(exit.Reason, "connect to systemd: ") {
		t.Errorf("got %+v", exit)
	}
}

// Without a socket there is no systemd, and so no unit. A stop does not wait for one.
func TestRun_absent(t *testing.T) {
	unreachable := func(context.Context) (*dbus.Conn, error) {
		return nil, &os.PathError{Op: "dial", Path: "socket", Err: fs.ErrNotExist}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ctx := range []context.Context{t.Context(), ended} {
		exit := New(Config{Unit: testUnit, StopTimeout: time.Hour, Connect: unreachable}).Run(ctx, func() { t.Error("it was started") })
		if exit.StillRuns || !strings.Contains(exit.Reason, "systemd does not run on this machine") {
			t.Errorf("got %+v", exit)
		}
	}
}

// A stop arrives while systemd does not answer a driver that is about to start: the unit that an
// earlier sidecar started is stopped when it does.
func TestRun_stoppedWithoutAnAnswer(t *testing.T) {
	b := newBus(t)
	m := newManager(t, b, testUnit)
	m.change("active", "running", "success", 0)
	ctx, cancel := context.WithCancel(t.Context())
	connect := func(dialCtx context.Context) (*dbus.Conn, error) {
		if ctx.Err() == nil {
			cancel()
			return nil, errors.New("no answer")
		}
		return b.dial(dialCtx)
	}
	exit := New(Config{Unit: testUnit, StopTimeout: limit, Connect: connect}).Run(ctx, func() { t.Error("it was started") })
	if exit.StillRuns || m.story() != "stop" {
		t.Errorf("got %+v, %s", exit, m.story())
	}
}

// The bus ends and starts again: nothing ends but the connection, and the state is read again.
func TestRun_busRestarts(t *testing.T) {
	b := newBus(t)
	m := newManager(t, b, testUnit)
	s := start(t, b.dial, testUnit, limit)
	s.wantRunning()
	restart := func() {
		b.kill()
		m.close()
	}
	restart()
	until(t, "the loss is logged", func() bool { return strings.Contains(s.log.String(), "systemd does not answer") })
	b.start(t)
	m.serve()
	until(t, "its end is logged", func() bool { return strings.Contains(s.log.String(), "systemd answers again") })
	if len(s.exit) > 0 || len(s.runs) > 0 {
		t.Errorf("the service has ended or runs again; log %s", s.log)
	}
	// Once more, while it stops: the stop is asked for again.
	m.mu.Lock()
	asked := make(chan struct{})
	m.stop = func(*manager) { close(asked) }
	m.mu.Unlock()
	s.cancel()
	<-asked
	restart()
	m.mu.Lock()
	m.stop = nil
	m.mu.Unlock()
	b.start(t)
	m.serve()
	s.wantExit("stopped: ")
	if got := m.story(); got != "reset start stop stop" {
		t.Errorf("got %s", got)
	}
}

// With a context that ended, a unit that runs is stopped and nothing starts.
func TestRun_stoppedBefore(t *testing.T) {
	b := newBus(t)
	m := newManager(t, b, testUnit)
	m.change("active", "running", "success", 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	exit := New(Config{Unit: testUnit, StopTimeout: limit, Connect: b.dial}).Run(ctx, func() { t.Error("it was started") })
	if exit.StillRuns || m.story() != "stop" {
		t.Errorf("got %+v, %s", exit, m.story())
	}
}

// until polls cond, and fails the test if it does not become true.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline, tick := time.After(limit), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}
