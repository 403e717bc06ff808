package roles_test

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	unitName    = "api.service"
	managerName = "org.freedesktop.systemd1"
	managerPath = dbus.ObjectPath("/org/freedesktop/systemd1")
)

var unitPath = managerPath + dbus.ObjectPath("/unit/"+sdbus.PathBusEscape(unitName))

// units is a fake of systemd on a bus of its own, with one unit that runs a program.
// Package internal/role/service/systemd tests the driver alone.
type units struct {
	t    *testing.T
	conn *dbus.Conn

	mu      sync.Mutex // mu guards the fields below
	command []string   // of the unit
	cmd     *exec.Cmd  // nil: the unit does not run
	ended   chan struct{}
	asked   bool // the unit is to stop
	jobs    uint32
	state   map[string]dbus.Variant
}

// startUnits starts a bus and the manager there. They end with the test. address is the
// address of the bus.
func startUnits(t *testing.T) (_ *units, address string) {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: units need dbus-daemon (Debian: apt-get install dbus-daemon)")
	}
	dir, err := os.MkdirTemp("", "bus") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address = "unix:path=" + filepath.Join(dir, "bus")
	config := filepath.Join(dir, "config")
	text := `<busconfig><type>custom</type><listen>` + address + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/></policy></busconfig>`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("dbus-daemon", "--config-file="+config, "--nofork", "--print-address")
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.StartCommand(daemon); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("dbus-daemon did not start: %v", err)
	}
	u := &units{t: t, state: map[string]dbus.Variant{"LoadState": dbus.MakeVariant("loaded"), "InvocationID": dbus.MakeVariant([]byte{})}}
	u.serve(address)
	return u, address
}

// serve takes systemd's name on the bus.
func (u *units) serve(address string) {
	u.t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		u.t.Fatal(err)
	}
	u.conn = conn
	u.change("inactive", "dead", "success")
	if err := errors.Join(conn.Export(methods{u}, managerPath, managerName+".Manager"),
		conn.Export(properties{u}, unitPath, "org.freedesktop.DBus.Properties")); err != nil {
		u.t.Fatal(err)
	}
	if reply, err := conn.RequestName(managerName, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		u.t.Fatalf("got %v, %v", reply, err)
	}
	u.t.Cleanup(func() {
		_ = conn.Close()
		u.mu.Lock()
		cmd, ended := u.cmd, u.ended
		u.mu.Unlock()
		if cmd != nil {
			_ = cmd.Process.Kill() // it may have ended
			<-ended
		}
	})
}

// install changes the program of the unit, from its next start on.
func (u *units) install(command []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.command = command
}

// change sets the state of the unit, and signals it. It needs mu, or that nothing else runs.
func (u *units) change(active, sub, result string) {
	for name, v := range map[string]any{
		"ActiveState": active, "SubState": sub, "Result": result, "ExecMainStatus": int32(0), "Job": job{0, "/"},
	} {
		u.state[name] = dbus.MakeVariant(v)
	}
	_ = u.conn.Emit(unitPath, "org.freedesktop.DBus.Properties.PropertiesChanged", managerName+".Unit", map[string]dbus.Variant{}, []string{"ActiveState"})
}

// job is a property with two values.
type job struct {
	ID   uint32
	Path dbus.ObjectPath
}

// done ends a job at once, and returns its path. It needs mu.
func (u *units) done() dbus.ObjectPath {
	u.jobs++
	path := dbus.ObjectPath(fmt.Sprintf("%s/job/%d", managerPath, u.jobs))
	_ = u.conn.Emit(managerPath, managerName+".Manager.JobRemoved", u.jobs, path, unitName, "done")
	return path
}

// start starts the program. It needs mu.
func (u *units) start() error {
	cmd := exec.Command(u.command[0], u.command[1:]...)
	cmd.Stderr = os.Stderr
	if err := cluster.StartCommand(cmd); err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	u.cmd, u.ended, u.asked = cmd, make(chan struct{}), false
	u.state["InvocationID"] = dbus.MakeVariant(id)
	u.change("active", "running", "success")
	ended := u.ended
	go func() { // ends with the program
		defer close(ended)
		_ = cmd.Wait() // its state says how it ended
		u.mu.Lock()
		defer u.mu.Unlock()
		u.cmd = nil
		if u.asked || cmd.ProcessState.Success() {
			u.change("inactive", "dead", "success")
			return
		}
		u.change("failed", "failed", "signal")
	}()
	return nil
}

// methods are the methods of the manager.
type methods struct{ u *units }

func (m methods) Subscribe() *dbus.Error { return nil }

func (m methods) ResetFailedUnit(string) *dbus.Error { return nil }

func (m methods) StartUnit(string, string) (dbus.ObjectPath, *dbus.Error) {
	m.u.mu.Lock()
	defer m.u.mu.Unlock()
	if m.u.cmd == nil {
		if err := m.u.start(); err != nil {
			return "/", dbus.MakeFailedError(err)
		}
	}
	return m.u.done(), nil
}

func (m methods) StopUnit(string, string) (dbus.ObjectPath, *dbus.Error) {
	m.u.mu.Lock()
	defer m.u.mu.Unlock()
	if m.u.cmd != nil && !m.u.asked {
		m.u.asked = true
		m.u.change("deactivating", "stop-sigterm", "success")
		_ = m.u.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	return m.u.done(), nil
}

func (m methods) KillUnit(string, string, int32) *dbus.Error {
	m.u.t.Error("the unit was killed")
	return nil
}

type properties struct{ u *units }

func (p properties) GetAll(string) (map[string]dbus.Variant, *dbus.Error) {
	p.u.mu.Lock()
	defer p.u.mu.Unlock()
	return maps.Clone(p.u.state), nil
}
