package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

const (
	// callTimeout bounds one call, and connecting.
	callTimeout = 5 * time.Second
	// maxSignals is more than systemd sends before the driver reads them.
	maxSignals = 64
	// repeatPause is the time between calls until systemd answers the first one.
	repeatPause = 20 * time.Millisecond

	destination = "org.freedesktop.systemd1"
	managerPath = dbus.ObjectPath("/org/freedesktop/systemd1")
)

// connectFunc opens one connection on which systemd answers. The end of the context closes it.
type connectFunc func(context.Context) (*dbus.Conn, error)

// onBus connects to the system bus.
func onBus(ctx context.Context) (*dbus.Conn, error) {
	conn, err := dbus.SystemBusPrivate(dbus.WithContext(ctx))
	if err == nil {
		err = authenticate(conn, (*dbus.Conn).Hello)
	}
	return conn, err
}

// withoutBus connects to systemd itself, which only root may do.
func withoutBus(ctx context.Context) (*dbus.Conn, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("without a bus, only root reaches it")
	}
	conn, err := dbus.Dial("unix:path=/run/systemd/private", dbus.WithContext(ctx))
	if err == nil {
		err = authenticate(conn, awaitAnswer)
	}
	return conn, err
}

// awaitAnswer returns when systemd has answered. systemd overlooks data that it receives together
// with the end of the authentication, until it receives more (docs/upstream.md#systemd-first-call).
func awaitAnswer(conn *dbus.Conn) error {
	answers := make(chan *dbus.Call, callTimeout/repeatPause+1) // the library waits for free space
	ticker := time.NewTicker(repeatPause)
	defer ticker.Stop()
	for {
		conn.Object(destination, managerPath).Go("org.freedesktop.DBus.Peer.Ping", 0, answers)
		select {
		case answer := <-answers: // with an error, if the connection was closed
			return answer.Err
		case <-ticker.C:
		}
	}
}

// authenticate closes a connection if systemd or the bus does not accept it.
func authenticate(conn *dbus.Conn, hello func(*dbus.Conn) error) error {
	// By number: looking up a user's name may need the network.
	err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil {
		err = hello(conn)
	}
	if err != nil {
		_ = conn.Close() // it was never used
	}
	return err
}

// bus is a connection to systemd for one unit.
type bus struct {
	unit   string
	conn   *sdbus.Conn
	cancel context.CancelFunc
	wake   chan struct{} // buffered, for one: the unit may have changed, or the connection ended
	done   chan struct{} // closed when the goroutine of the connection has ended
}

// errAbsent: none of systemd's sockets exists. Then neither systemd nor a unit runs here.
var errAbsent = errors.New("systemd does not run on this machine")

// dial connects to systemd in the first way that works, and subscribes to changes. The connection
// outlives ctx. It returns errAbsent if no socket exists.
func dial(ctx context.Context, ways []connectFunc, unit string) (*bus, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(callTimeout, cancel)
	defer timer.Stop()
	b := &bus{unit: unit, cancel: cancel, wake: make(chan struct{}, 1), done: make(chan struct{})}
	var problems []error
	for _, way := range ways {
		err := b.connect(ctx, way)
		if err == nil {
			break
		}
		problems = append(problems, err)
	}
	if b.conn == nil {
		cancel()
		if !slices.ContainsFunc(problems, func(err error) bool { return !errors.Is(err, fs.ErrNotExist) }) {
			problems = append(problems, errAbsent)
		}
		return nil, fmt.Errorf("connect to systemd: %w", errors.Join(problems...))
	}
	updates, errs := make(chan *sdbus.PropertiesUpdate, maxSignals), make(chan error, maxSignals)
	b.conn.SetPropertiesSubscriber(updates, errs)
	go b.follow(ctx, updates, errs)
	err := b.conn.Subscribe()
	if err != nil {
		err = fmt.Errorf("subscribe to changes of units: %w", err)
	} else if !timer.Stop() {
		err = fmt.Errorf("connect to systemd: no answer within %s", callTimeout)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// connect opens the two connections that the library uses: for calls, and for signals.
func (b *bus) connect(ctx context.Context, way connectFunc) (err error) {
	b.conn, err = sdbus.NewConnection(func() (*dbus.Conn, error) {
		conn, err := way(ctx)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(conn.Context(), b.wakeUp)
		// systemd forgets a unit that ended, and the reason of its end, unless a connection holds a
		// reference. It may refuse one, and does so without a bus: then less is known about the end.
		_ = conn.Object(destination, managerPath).CallWithContext(ctx, destination+".Manager.RefUnit", 0, b.unit).Err
		return conn, nil
	})
	return err
}

// close ends the connection. It does nothing for a nil bus.
func (b *bus) close() {
	if b == nil {
		return
	}
	// The library reads its subscriber without a lock, so do not change it.
	b.conn.Close()
	b.cancel()
	<-b.done
}

// follow turns signals about the unit into wake-ups until the connection is closed. It reads all
// signals: the library logs each one that does not fit into the channel.
func (b *bus) follow(ctx context.Context, updates <-chan *sdbus.PropertiesUpdate, errs <-chan error) {
	defer close(b.done)
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-errs:
			if err != nil { // too many signals at once: one about the unit may be lost
				b.wakeUp()
			}
		case u := <-updates:
			if u.UnitName == b.unit {
				b.wakeUp()
			}
		}
	}
}

func (b *bus) wakeUp() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// start asks for a start job. The library sends the job's result to the channel, or never.
func (b *bus) start(ctx context.Context, result chan<- string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// Without the reset, systemd does not start a unit that failed too often. For a unit that is not
	// loaded, the reset fails, and is not needed.
	_ = b.conn.ResetFailedUnitContext(ctx, b.unit)
	_, err := b.conn.StartUnitContext(ctx, b.unit, "replace", result)
	return err
}

func (b *bus) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := b.conn.StopUnitContext(ctx, b.unit, "replace", nil)
	return err
}

func (b *bus) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return b.conn.KillUnitWithTarget(ctx, b.unit, sdbus.All, sigkill)
}

const sigkill = 9

func (b *bus) state(ctx context.Context) (unitState, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	properties, err := b.conn.GetAllPropertiesContext(ctx, b.unit)
	return newUnitState(properties), err
}
