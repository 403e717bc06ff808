package systemd

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

const testUnit = "a@1.service"

// message bus is a real dbus-daemon.
type messageBus struct {
	dir string
	cmd *exec.Cmd
}

// newBus starts a dbus-daemon. Without one it skips the test, loudly.
func newBus(t *testing.T) *messageBus {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: systemd over D-Bus needs dbus-daemon (Debian: apt-get install dbus-daemon)")
	}
	// The path of a socket is short.
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &messageBus{dir: dir}
	b.start(t)
	t.Cleanup(b.kill)
	return b
}

func (b *messageBus) address() string { return "unix:path=" + filepath.Join(b.dir, "bus") }

func (b *messageBus) start(t *testing.T) {
	t.Helper()
	config := `<busconfig><type>custom</type><listen>` + b.address() + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/></policy></busconfig>`
	file := filepath.Join(b.dir, "config")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	b.cmd = exec.Command("dbus-daemon", "--config-file="+file, "--nofork", "--print-address")
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("dbus-daemon did not start: %v", err)
	}
}

func (b *messageBus) kill() {
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	_ = os.Remove(filepath.Join(b.dir, "bus"))
	b.cmd = nil
}

// dial connects to the bus.
func (b *messageBus) dial(ctx context.Context) (*dbus.Conn, error) {
	conn, err := dbus.Dial(b.address(), dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		conn.Close()
		return nil, err
	}
	if err := conn.Hello(); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// manager is a fake of systemd with one unit.
type manager struct {
	t    *testing.T
	bus  *messageBus
	unit string

	mu         sync.Mutex // mu guards the fields below
	conn       *dbus.Conn
	state      map[string]dbus.Variant
	calls      []string
	jobs       uint32
	referenced bool // a client needs the unit
	starts     int  // since the last reset
	fakeUnit
}

// fakeUnit is the behavior of a unit.
type fakeUnit struct {
	start  func(m *manager)       // after the job was queued; nil: it becomes active
	stop   func(m *manager)       // nil: it becomes inactive
	killed func(m *manager)       // its main process was killed; nil: it failed
	limit  int                    // starts that are too many; 0: none are
	refuse map[string]*dbus.Error // calls that fail
}

func newManager(t *testing.T, b *messageBus, unit string) *manager {
	t.Helper()
	m := &manager{t: t, bus: b, unit: unit, state: map[string]dbus.Variant{}}
	m.refuse = map[string]*dbus.Error{}
	m.forget()
	m.serve()
	t.Cleanup(func() { m.close() })
	return m
}

// serve takes systemd's name on the bus.
func (m *manager) serve() {
	m.t.Helper()
	conn, err := m.bus.dial(context.WithoutCancel(m.t.Context()))
	if err != nil {
		m.t.Fatal(err)
	}
	if err := conn.Export(methods{m}, managerPath, "org.freedesktop.systemd1.Manager"); err != nil {
		m.t.Fatal(err)
	}
	if err := conn.Export(properties{m}, m.path(), "org.freedesktop.DBus.Properties"); err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	m.conn = conn
	m.mu.Unlock()
	reply, err := conn.RequestName(destination, dbus.NameFlagDoNotQueue)
	if err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		m.t.Fatalf("got %v, %v", reply, err)
	}
}

func (m *manager) path() dbus.ObjectPath {
	return managerPath + dbus.ObjectPath("/unit/"+sdbus.PathBusEscape(m.unit))
}

func (m *manager) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn.Close()
}

// forget makes the unit one that was never started.
func (m *manager) forget() {
	for name, v := range map[string]any{
		"LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead", "Result": "success", "ExecMainStatus": int32(0),
		"InvocationID": []byte{}, "Job": job{0, "/"}, "NRestarts": uint32(0),
		"ConditionResult": false, "ConditionTimestamp": uint64(0), "AssertResult": false, "AssertTimestamp": uint64(0),
	} {
		m.state[name] = dbus.MakeVariant(v)
	}
}

// change sets the state of the unit, with a signal to all who subscribed.
func (m *manager) change(active, sub, result string, status int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if active == "active" && m.state["ActiveState"].Value() != "active" {
		m.begin()
	}
	for name, v := range map[string]any{"ActiveState": active, "SubState": sub, "Result": result, "ExecMainStatus": status} {
		m.state[name] = dbus.MakeVariant(v)
	}
	m.set("Job", job{0, "/"})
}

// begin makes it another instance. It needs mu.
func (m *manager) begin() {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	m.state["InvocationID"] = dbus.MakeVariant(id)
}

// job is a property with two values.
type job struct {
	ID   uint32
	Path dbus.ObjectPath
}

// set sets one property. It needs mu.
func (m *manager) set(name string, v any) {
	m.state[name] = dbus.MakeVariant(v)
	if m.conn != nil {
		_ = m.conn.Emit(m.path(), "org.freedesktop.DBus.Properties.PropertiesChanged", "org.freedesktop.systemd1.Unit", map[string]dbus.Variant{}, []string{name})
	}
}

func (m *manager) property(name string, v any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(name, v)
}

// finish ends a job. systemd signals the changed properties before.
func (m *manager) finish(result string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.conn.Emit(managerPath, "org.freedesktop.systemd1.Manager.JobRemoved", m.jobs, m.jobPath(), m.unit, result)
}

// jobPath needs mu.
func (m *manager) jobPath() dbus.ObjectPath {
	return managerPath + dbus.ObjectPath(fmt.Sprintf("/job/%d", m.jobs))
}

// behave changes the behavior of the unit.
func (m *manager) behave(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *manager) called(name string) *dbus.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, name)
	return m.refuse[name]
}

func (m *manager) story() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.calls, " ")
}

// enqueue adds a job that calls do after its caller got the answer.
func (m *manager) enqueue(do func(m *manager)) dbus.ObjectPath {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs++
	m.set("Job", job{m.jobs, m.jobPath()})
	time.AfterFunc(10*time.Millisecond, func() { do(m) })
	return m.jobPath()
}

// methods are the methods that the fake answers.
type methods struct{ m *manager }

func (s methods) Subscribe() *dbus.Error { return nil }

func (s methods) RefUnit(string) *dbus.Error {
	s.m.behave(func() { s.m.referenced = true })
	return nil
}

func (s methods) ResetFailedUnit(string) *dbus.Error {
	s.m.behave(func() { s.m.starts = 0 })
	return s.m.called("reset")
}

func (s methods) StartUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	if err := s.m.called("start"); err != nil {
		return "/", err
	}
	do := func(m *manager) { m.change("active", "running", "success", 0); m.finish("done") }
	s.m.behave(func() {
		s.m.starts++
		switch {
		case s.m.limit > 0 && s.m.starts >= s.m.limit:
			// Nothing else changes: its result is the result of the last start.
			do = func(m *manager) { m.property("Job", job{0, "/"}); m.finish("failed") }
			return
		case s.m.start != nil:
			do = s.m.start
		}
		s.m.begin()
	})
	return s.m.enqueue(do), nil
}

func (s methods) StopUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	if err := s.m.called("stop"); err != nil {
		return "/", err
	}
	do := func(m *manager) { m.change("inactive", "dead", "success", 0); m.finish("done") }
	s.m.behave(func() {
		if s.m.stop != nil {
			do = s.m.stop
		}
	})
	return s.m.enqueue(do), nil
}

// KillUnit kills the processes of the unit: all, or the main one.
func (s methods) KillUnit(name, who string, signal int32) *dbus.Error {
	if signal != int32(syscall.SIGKILL) {
		s.m.t.Errorf("got KillUnit(%s, %d)", who, signal)
	}
	if err := s.m.called("kill"); err != nil {
		return err
	}
	do := func(m *manager) { m.change("failed", "failed", "signal", 9) }
	s.m.behave(func() {
		if who == "main" && s.m.killed != nil {
			do = s.m.killed
		}
	})
	do(s.m)
	return nil
}

type properties struct{ m *manager }

// GetAll answers from memory, as systemd does, which forgets a unit that ended without a failure
// and that no client references.
func (p properties) GetAll(string) (map[string]dbus.Variant, *dbus.Error) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.m.state["ActiveState"].Value() == "inactive" && p.m.state["Job"].Value() == (job{0, "/"}) && !p.m.referenced {
		load := p.m.state["LoadState"]
		p.m.forget()
		p.m.state["LoadState"] = load
	}
	out := map[string]dbus.Variant{}
	maps.Copy(out, p.m.state)
	return out, nil
}
