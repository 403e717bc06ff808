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

const (
	testUnit    = "a@1.service"
	managerName = "org.freedesktop.systemd1"
	managerPath = dbus.ObjectPath("/org/freedesktop/systemd1")
)

var unitPath = managerPath + dbus.ObjectPath("/unit/"+sdbus.PathBusEscape(testUnit))

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

func (b *messageBus) connect(ctx context.Context) (*sdbus.Conn, error) {
	return sdbus.NewConnection(func() (*dbus.Conn, error) { return b.dial(ctx) })
}

// manager is a fake of systemd with one unit.
type manager struct {
	t   *testing.T
	bus *messageBus

	mu    sync.Mutex // mu guards what follows
	conn  *dbus.Conn
	state map[string]dbus.Variant
	calls []string
	jobs  uint32
	// What the unit does.
	onStart func(m *manager)       // after the job was queued; nil: it becomes active
	onStop  func(m *manager)       // nil: it becomes inactive
	refuse  map[string]*dbus.Error // calls that fail
}

func newManager(t *testing.T, b *messageBus) *manager {
	t.Helper()
	m := &manager{t: t, bus: b, state: map[string]dbus.Variant{}, refuse: map[string]*dbus.Error{}}
	m.change("inactive", "dead", "success", 0)
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
	if err := conn.Export(properties{m}, unitPath, "org.freedesktop.DBus.Properties"); err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	m.conn = conn
	m.mu.Unlock()
	reply, err := conn.RequestName(managerName, dbus.NameFlagDoNotQueue)
	if err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		m.t.Fatalf("got %v, %v", reply, err)
	}
}

func (m *manager) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn.Close()
}

// change sets the state of the unit, with a signal to all who subscribed.
func (m *manager) change(active, sub, result string, status int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	invocation := m.state["InvocationID"]
	if active == "active" && m.state["ActiveState"].String() != `"active"` {
		id := make([]byte, 16)
		_, _ = rand.Read(id)
		invocation = dbus.MakeVariant(id)
	} else if invocation.Value() == nil {
		invocation = dbus.MakeVariant([]byte{})
	}
	for name, v := range map[string]any{
		"LoadState": "loaded", "ActiveState": active, "SubState": sub, "Result": result, "ExecMainStatus": status,
	} {
		m.state[name] = dbus.MakeVariant(v)
	}
	m.state["InvocationID"] = invocation
	m.set("Job", job{0, "/"})
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
		_ = m.conn.Emit(unitPath, "org.freedesktop.DBus.Properties.PropertiesChanged", "org.freedesktop.systemd1.Unit", map[string]dbus.Variant{}, []string{name})
	}
}

func (m *manager) property(name string, v any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(name, v)
}

// finish ends a job.
func (m *manager) finish(result string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := dbus.ObjectPath(fmt.Sprintf("%s/job/%d", managerPath, m.jobs))
	_ = m.conn.Emit(managerPath, "org.freedesktop.systemd1.Manager.JobRemoved", m.jobs, path, testUnit, result)
}

// behave changes what the unit does.
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

// enqueue adds a job that does something when its caller has the answer.
func (m *manager) enqueue(do func(m *manager)) dbus.ObjectPath {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs++
	path := dbus.ObjectPath(fmt.Sprintf("%s/job/%d", managerPath, m.jobs))
	m.set("Job", job{m.jobs, path})
	time.AfterFunc(10*time.Millisecond, func() { do(m) })
	return path
}

// methods are what the fake answers.
type methods struct{ m *manager }

func (s methods) Subscribe() *dbus.Error { return nil }

func (s methods) ResetFailedUnit(string) *dbus.Error { return s.m.called("reset") }

func (s methods) StartUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	if err := s.m.called("start"); err != nil {
		return "/", err
	}
	s.m.mu.Lock()
	do := s.m.onStart
	s.m.mu.Unlock()
	if do == nil {
		do = func(m *manager) { m.change("active", "running", "success", 0); m.finish("done") }
	}
	return s.m.enqueue(do), nil
}

func (s methods) StopUnit(name, mode string) (dbus.ObjectPath, *dbus.Error) {
	if err := s.m.called("stop"); err != nil {
		return "/", err
	}
	s.m.mu.Lock()
	do := s.m.onStop
	s.m.mu.Unlock()
	if do == nil {
		do = func(m *manager) { m.change("inactive", "dead", "success", 0); m.finish("done") }
	}
	return s.m.enqueue(do), nil
}

func (s methods) KillUnit(name, who string, signal int32) *dbus.Error {
	if who != "all" || signal != int32(syscall.SIGKILL) {
		s.m.t.Errorf("got KillUnit(%s, %d)", who, signal)
	}
	if err := s.m.called("kill"); err != nil {
		return err
	}
	s.m.change("failed", "failed", "signal", 9)
	return nil
}

type properties struct{ m *manager }

func (p properties) GetAll(string) (map[string]dbus.Variant, *dbus.Error) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	out := map[string]dbus.Variant{}
	maps.Copy(out, p.m.state)
	return out, nil
}
