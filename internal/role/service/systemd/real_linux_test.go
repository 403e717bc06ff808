package systemd

import (
	"syscall"
	"testing"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/lockstep-dev/lockstep/test/jail"
)

// TestReal runs the suite against a real systemd.
func TestReal(t *testing.T) {
	if !jail.Enter(t, jail.Config{Units: units}) {
		return
	}
	suite(t, func(t *testing.T, unit string) *world {
		return &world{
			breakBus:  func() { breakBus(t) },
			reexecute: func() { reexecute(t) },
		}
	})
}

// TestReal_withoutBus: root reaches systemd while there is no bus.
func TestReal_withoutBus(t *testing.T) {
	if !jail.Enter(t, jail.Config{Units: units}) {
		return
	}
	direct(t, func(conn *sdbus.Conn) error {
		for _, unit := range []string{"dbus.socket", "dbus.service"} {
			done := make(chan string, 1)
			if _, err := conn.StopUnitContext(t.Context(), unit, "replace", done); err != nil {
				return err
			}
			t.Log(unit, <-done)
		}
		return nil
	})
	if conn, err := onBus(t.Context()); err == nil {
		conn.Close()
		t.Fatal("there is a bus")
	}
	s := start(t, nil, "restarts.service", limit)
	s.wantRunning()
	direct(t, func(conn *sdbus.Conn) error {
		return conn.KillUnitWithTarget(t.Context(), "restarts.service", sdbus.Main, int32(syscall.SIGKILL))
	})
	s.wantRunning()
	s.cancel()
	s.wantExit("stopped: unit restarts.service is inactive (dead)")
	s = start(t, nil, "fails.service", limit)
	s.wantExit("result exit-code, exit status 3")
}

// direct calls systemd without a bus.
func direct(t *testing.T, f func(*sdbus.Conn) error) {
	t.Helper()
	conn, err := sdbus.NewConnection(func() (*dbus.Conn, error) { return withoutBus(t.Context()) })
	if err == nil {
		defer conn.Close()
		err = f(conn)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// breakBus kills the bus. Its socket belongs to systemd, which starts another bus at the next
// connection.
func breakBus(t *testing.T) {
	t.Helper()
	invocation := func() (id string) {
		direct(t, func(conn *sdbus.Conn) error {
			p, err := conn.GetAllPropertiesContext(t.Context(), "dbus.service")
			id = newUnitState(p).Invocation
			return err
		})
		return id
	}
	before := invocation()
	direct(t, func(conn *sdbus.Conn) error {
		return conn.KillUnitWithTarget(t.Context(), "dbus.service", sdbus.Main, int32(syscall.SIGKILL))
	})
	until(t, "there is another bus", func() bool {
		conn, err := onBus(t.Context())
		if err == nil {
			conn.Close()
		}
		return err == nil && invocation() != before
	})
}

// reexecute makes systemd execute itself again, and returns when it answers.
func reexecute(t *testing.T) {
	t.Helper()
	conn, err := dbus.ConnectSystemBus(dbus.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// There is no answer: systemd executes itself before it would answer.
	_ = conn.Object(destination, managerPath).Call(destination+".Manager.Reexecute", 0).Err
	until(t, "systemd answers", func() bool {
		return conn.Object(destination, managerPath).Call("org.freedesktop.DBus.Peer.Ping", 0).Err == nil
	})
}
