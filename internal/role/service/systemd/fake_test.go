package systemd

import (
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// TestFake runs the suite against the fake.
func TestFake(t *testing.T) {
	suite(t, func(t *testing.T, unit string) *world {
		b := newBus(t)
		m := newManager(t, b, unit)
		m.behave(func() { m.become(unit) })
		return &world{
			connect: b.dial,
			breakBus: func() {
				b.kill()
				m.close()
				b.start(t)
				m.serve()
			},
			reexecute: func() {
				m.close()
				m.serve()
			},
		}
	})
}

// become makes the unit behave as the unit of the same name in units. It needs mu.
func (m *manager) become(unit string) {
	if problem, is := unloaded[unit]; is {
		m.set("LoadState", problem.load)
		m.refuse["start"] = dbus.NewError(destination+"."+problem.name, []any{problem.text})
		return
	}
	name := unit
	if template, _, is := strings.Cut(unit, "@"); is {
		name = template + "@.service"
	}
	m.fakeUnit = fakeUnits[name]
}

// unloaded are the units that systemd cannot load, and its messages about them.
var unloaded = map[string]struct{ load, name, text string }{
	"masked.service":  {"masked", "UnitMasked", "Unit masked.service is masked."},
	"unknown.service": {"not-found", "NoSuchUnit", "Unit unknown.service not found."},
	"bad.service":     {"bad-setting", "BadUnitSetting", "Unit bad.service has a bad unit file setting."},
}

// fakeUnits behave as the units of the same names.
var fakeUnits = map[string]fakeUnit{
	"runs@.service": {},
	"simple.service": {start: func(m *manager) {
		m.change("active", "running", "success", 0)
		m.finish("done")
		m.later(func() { m.change("failed", "failed", "exit-code", 203) })
	}},
	"missing.service":   {start: fails("exit-code", 203)},
	"ends.service":      {start: ends("done")},
	"fails.service":     {start: fails("exit-code", 3)},
	"condition.service": {start: failsCheck("Condition", "done")},
	"assert.service":    {start: failsCheck("Assert", "assert")},
	"needs.service":     {start: ends("dependency")},
	"never-ready.service": {start: func(m *manager) { m.change("activating", "start", "success", 0) }, stop: func(m *manager) {
		m.finish("canceled")
		m.change("inactive", "dead", "success", 0)
		m.finish("done")
	}},
	"late.service": {start: func(m *manager) {
		m.change("activating", "start", "success", 0)
		m.later(func() { fails("timeout", 15)(m) })
	}},
	"limited.service": {start: fails("exit-code", 3), limit: 3},
	"gives-up.service": {start: func(m *manager) {
		m.finish("done")
		m.change("activating", "auto-restart", "exit-code", 3)
		m.later(func() { m.change("failed", "failed", "exit-code", 3) })
	}, limit: 2},
	"restarts.service": {killed: func(m *manager) {
		m.change("activating", "auto-restart", "signal", 9)
		m.later(func() {
			m.property("NRestarts", uint32(1))
			m.change("active", "running", "success", 0)
		})
	}},
	"stays.service": {stop: func(m *manager) { m.change("deactivating", "stop-sigterm", "success", 0) }},
	"stays-for-a-while.service": {stop: func(m *manager) {
		m.change("deactivating", "stop-sigterm", "success", 0)
		m.later(func() {
			m.change("failed", "failed", "timeout", 9)
			m.finish("done")
		})
	}},
}

// later calls do after others saw the current state.
func (m *manager) later(do func()) { time.AfterFunc(50*time.Millisecond, do) }

func fails(result string, status int32) func(*manager) {
	return func(m *manager) {
		m.change("failed", "failed", result, status)
		m.finish("failed")
	}
}

// ends lets a client see that the unit does not run before it sees the result of the job.
func ends(result string) func(*manager) {
	return func(m *manager) {
		m.change("inactive", "dead", "success", 0)
		m.later(func() { m.finish(result) })
	}
}

func failsCheck(name, result string) func(*manager) {
	return func(m *manager) {
		m.property(name+"Timestamp", uint64(1))
		m.property(name+"Result", false)
		ends(result)(m)
	}
}
