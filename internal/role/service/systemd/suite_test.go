package systemd

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// This file holds the driver, and the fake of systemd that its other tests use, to the behavior
// of a real systemd: each case runs against both.

// masked is the content of a unit that is masked.
const masked = "masked" // jail.Masked

// units are the units of the real systemd, by name. The fake knows one of the same name for
// each (fakeUnits). None depends on how fast its program is.
var units = map[string]string{
	"runs@.service":       "[Service]\nType=exec\nExecStart=/bin/sleep infinity\n",
	"simple.service":      "[Service]\nType=simple\nExecStart=/missing\n",
	"missing.service":     "[Service]\nType=exec\nExecStart=/missing\n",
	"ends.service":        "[Service]\nType=oneshot\nExecStart=/bin/true\n",
	"fails.service":       "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'exit 3'\n",
	"condition.service":   "[Unit]\nConditionPathExists=/missing\n[Service]\nType=exec\nExecStart=/bin/sleep infinity\n",
	"assert.service":      "[Unit]\nAssertPathExists=/missing\n[Service]\nType=exec\nExecStart=/bin/sleep infinity\n",
	"needs.service":       "[Unit]\nRequires=fails.service\nAfter=fails.service\n[Service]\nType=exec\nExecStart=/bin/sleep infinity\n",
	"never-ready.service": "[Service]\nType=notify\nTimeoutStartSec=infinity\nExecStart=/bin/sleep infinity\n",
	"late.service":        "[Service]\nType=notify\nTimeoutStartSec=100ms\nExecStart=/bin/sleep infinity\n",
	"limited.service":     "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=2\n[Service]\nType=oneshot\nExecStart=/bin/sh -c 'exit 3'\n",
	"gives-up.service": "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=3\n[Service]\nType=exec\nRestart=always\nRestartSec=1ms\n" +
		"ExecStart=/bin/sh -c 'exit 3'\n",
	"restarts.service":          "[Service]\nType=exec\nRestart=always\nRestartSec=1ms\nExecStart=/bin/sleep infinity\n",
	"stays.service":             "[Service]\nType=exec\nKillSignal=SIGCONT\nTimeoutStopSec=infinity\nExecStart=/bin/sleep infinity\n",
	"stays-for-a-while.service": "[Service]\nType=exec\nKillSignal=SIGCONT\nTimeoutStopSec=100ms\nExecStart=/bin/sleep infinity\n",
	"bad.service":               "[Service]\nType=exec\n",
	"masked.service":            masked,
}

// world is a systemd, real or not.
type world struct {
	connect connectFunc // nil: as a sidecar does
	// breakBus kills the bus. It is up again when it returns.
	breakBus func()
	// reexecute makes systemd execute itself again, and returns when that is done.
	reexecute func()
}

// suite are the cases. open returns a systemd whose unit does not run.
func suite(t *testing.T, open func(t *testing.T, unit string) *world) {
	for _, tt := range []suiteCase{
		{name: "is stopped", unit: "runs@1.service", do: stopIt, exit: "stopped: unit runs@1.service is inactive (dead)", after: "inactive dead success"},
		{name: "is killed", unit: "runs@1.service", do: killMain,
			exit: "unit runs@1.service is failed (failed): result signal, exit status 9; see systemctl status runs@1.service", after: "failed failed signal"},
		{name: "the program is missing, Type=simple", unit: "simple.service", exit: "result exit-code, exit status 203", after: "failed failed exit-code"},
		{name: "the program is missing", unit: "missing.service", exit: "result exit-code, exit status 203", after: "failed failed exit-code"},
		{name: "a oneshot that ends", unit: "ends.service", exit: "its main process ended with exit status 0", after: "inactive dead success"},
		{name: "a oneshot that fails", unit: "fails.service", exit: "result exit-code, exit status 3", after: "failed failed exit-code"},
		{name: "a condition is not met", unit: "condition.service", exit: "is inactive (dead): a condition of the unit is not met", after: "inactive dead success"},
		{name: "an assertion is not met", unit: "assert.service", exit: "is inactive (dead): an assertion of the unit is not met", after: "inactive dead success"},
		{name: "a unit that it needs fails", unit: "needs.service", exit: `is inactive (dead): its start job ended with "dependency"`, after: "inactive dead success"},
		{name: "is not ready in time", unit: "late.service", exit: "result timeout", after: "failed failed timeout"},
		{name: "is stopped while it starts", unit: "never-ready.service", do: stopWhileItStarts,
			exit: "stopped: unit never-ready.service is inactive (dead)", after: "inactive dead success"},
		{name: "starts too often", unit: "limited.service", times: 4, exit: "result exit-code, exit status 3", after: "failed failed exit-code"},
		{name: "is given up by systemd", unit: "gives-up.service", times: 2, exit: "result exit-code, exit status 3", after: "failed failed exit-code"},
		{name: "is started again by systemd", unit: "restarts.service", do: restartIt, exit: "stopped: ", after: "inactive dead success"},
		{name: "does not stop", unit: "stays.service", stopTimeout: 100 * time.Millisecond, do: stopIt,
			exit: "did not stop within 100ms, and was killed: unit stays.service is failed (failed)", after: "failed failed signal"},
		{name: "is killed by systemd", unit: "stays-for-a-while.service", do: stopIt,
			exit: "stopped: unit stays-for-a-while.service is failed (failed)", after: "failed failed timeout"},
		{name: "is masked", unit: "masked.service", exit: "start unit masked.service: Unit masked.service is masked.", after: "inactive dead success"},
		{name: "is unknown", unit: "unknown.service", exit: "start unit unknown.service: Unit unknown.service not found.", after: "inactive dead success"},
		{name: "has no program", unit: "bad.service", exit: "start unit bad.service: Unit bad.service has a bad unit file setting.", after: "inactive dead success"},
		{name: "runs already", unit: "runs@2.service", before: startIt, do: stopNew, exit: "stopped: ", after: "inactive dead success"},
		{name: "the bus is killed", unit: "runs@3.service", do: busWhileItRuns, exit: "stopped: ", after: "inactive dead success"},
		{name: "the bus is killed, and the unit meanwhile", unit: "runs@3.service", do: killWithoutBus, exit: "result signal, exit status 9", after: "failed failed signal"},
		{name: "the bus is killed while it stops", unit: "stays.service", stopTimeout: time.Second, do: busWhileItStops, exit: "did not stop", after: "failed failed signal"},
		{name: "systemd executes itself again", unit: "runs@4.service", do: reexecuteWhileItRuns, exit: "stopped: ", after: "inactive dead success"},
		{name: "systemd executes itself again while it stops", unit: "stays.service", stopTimeout: time.Second, do: reexecuteWhileItStops,
			exit: "did not stop", after: "failed failed signal"},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, open(t, tt.unit)) })
	}
}

type suiteCase struct {
	name, unit  string
	stopTimeout time.Duration // 0: limit
	times       int           // that it is run; 0: once. Afterwards, systemd remembers the last one
	before      func(c *inCase)
	do          func(c *inCase) // while it runs; nil: nothing
	exit        string          // part of the reason
	after       string          // ActiveState, SubState and Result
}

// inCase is one run of a case.
type inCase struct {
	*service
	world      *world
	unit       string
	invocation string // before the driver started the unit
}

func (tt suiteCase) run(t *testing.T, w *world) {
	c := &inCase{world: w, unit: tt.unit}
	c.service = &service{t: t}
	if tt.before != nil {
		tt.before(c)
	}
	for range max(tt.times, 1) {
		if tt.stopTimeout == 0 {
			tt.stopTimeout = limit
		}
		c.invocation = c.state().Invocation
		c.service = start(t, w.connect, tt.unit, tt.stopTimeout)
		if tt.do != nil {
			tt.do(c)
		}
		c.wantExit(tt.exit)
		if tt.times > 1 && c.state().Invocation == c.invocation {
			t.Error("it was not started again")
		}
	}
	s := c.state()
	if got := strings.Join([]string{s.Active, s.Sub, s.Result}, " "); got != tt.after || s.Job != 0 {
		t.Errorf("afterwards it is %q, want %q; its job is %d", got, tt.after, s.Job)
	}
}

// with calls systemd over a connection of its own.
func (c *inCase) with(f func(*sdbus.Conn) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	connect := c.world.connect
	if connect == nil {
		connect = onBus
	}
	conn, err := sdbus.NewConnection(func() (*dbus.Conn, error) { return connect(ctx) })
	if err == nil {
		defer conn.Close()
		err = f(conn)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *inCase) state() (s unitState) {
	c.t.Helper()
	c.with(func(conn *sdbus.Conn) error {
		p, err := conn.GetAllPropertiesContext(c.t.Context(), c.unit)
		s = newUnitState(p)
		return err
	})
	return s
}

// restarts returns how often systemd started the unit again by itself.
func (c *inCase) restarts() (n uint32) {
	c.t.Helper()
	c.with(func(conn *sdbus.Conn) error {
		p, err := conn.GetAllPropertiesContext(c.t.Context(), c.unit)
		n, _ = p["NRestarts"].(uint32)
		return err
	})
	return n
}

func (c *inCase) killUnit() {
	c.t.Helper()
	c.with(func(conn *sdbus.Conn) error {
		return conn.KillUnitWithTarget(c.t.Context(), c.unit, sdbus.Main, int32(syscall.SIGKILL))
	})
}

func (c *inCase) await(what string, cond func(unitState) bool) {
	c.t.Helper()
	until(c.t, what, func() bool { return cond(c.state()) })
}

func startIt(c *inCase) {
	c.with(func(conn *sdbus.Conn) error {
		result := make(chan string, 1)
		if _, err := conn.StartUnitContext(c.t.Context(), c.unit, "replace", result); err != nil {
			return err
		}
		if got := <-result; got != "done" {
			return errors.New(got)
		}
		return nil
	})
}

func stopIt(c *inCase) {
	c.wantRunning()
	c.cancel()
}

func stopNew(c *inCase) {
	c.wantRunning()
	if now := c.state().Invocation; now == c.invocation {
		c.t.Errorf("it is still the instance %s that ran before", now)
	}
	c.cancel()
}

func killMain(c *inCase) {
	c.wantRunning()
	c.killUnit()
}

func stopWhileItStarts(c *inCase) {
	c.await("it starts", func(s unitState) bool { return s.Active == "activating" })
	c.cancel()
	c.wantNeverRan()
}

func restartIt(c *inCase) {
	c.wantRunning()
	first := c.state()
	c.killUnit()
	c.wantRunning()
	if now := c.state(); now.Invocation == first.Invocation || c.restarts() != 1 {
		c.t.Errorf("got %+v after %+v, and %d restarts", now, first, c.restarts())
	}
	c.cancel()
}

func busWhileItRuns(c *inCase) {
	c.wantRunning()
	before := c.state()
	c.world.breakBus()
	if now := c.state(); now.Invocation != before.Invocation || len(c.runs) > 0 {
		c.t.Errorf("got %+v after %+v", now, before)
	}
	c.cancel()
}

func killWithoutBus(c *inCase) {
	c.wantRunning()
	c.world.breakBus()
	c.killUnit()
}

func busWhileItStops(c *inCase) {
	c.wantRunning()
	c.cancel()
	c.await("it stops", func(s unitState) bool { return s.Active != "active" })
	c.world.breakBus()
}

func reexecuteWhileItRuns(c *inCase) {
	c.wantRunning()
	before := c.state()
	c.world.reexecute()
	if now := c.state(); now.Invocation != before.Invocation || len(c.runs) > 0 || len(c.exit) > 0 {
		c.t.Errorf("got %+v after %+v", now, before)
	}
	c.cancel()
}

func reexecuteWhileItStops(c *inCase) {
	c.wantRunning()
	c.cancel()
	c.await("it stops", func(s unitState) bool { return s.Active != "active" })
	c.world.reexecute()
}
