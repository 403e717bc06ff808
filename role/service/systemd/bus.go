package systemd

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

const (
	// callTimeout bounds one call, and making a connection.
	callTimeout = 5 * time.Second
	// maxSignals is more than systemd sends while they are read.
	maxSignals = 64
)

// bus is a connection to systemd that is used for one unit.
type bus struct {
	unit   string
	conn   *dbus.Conn
	cancel context.CancelFunc
	wake   chan struct{} // has room for one: the unit may have changed
	done   chan struct{} // closed when the goroutine of the connection has ended
}

// dial connects to systemd and subscribes to changes. The connection outlives ctx.
func dial(ctx context.Context, connect func(context.Context) (*dbus.Conn, error), unit string) (*bus, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(callTimeout, cancel)
	defer timer.Stop()
	conn, err := connect(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connect to systemd: %w", err)
	}
	b := &bus{unit: unit, conn: conn, cancel: cancel, wake: make(chan struct{}, 1), done: make(chan struct{})}
	updates, errs := make(chan *dbus.PropertiesUpdate, maxSignals), make(chan error, maxSignals)
	conn.SetPropertiesSubscriber(updates, errs)
	go b.follow(ctx, updates, errs)
	if err = conn.Subscribe(); err != nil {
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

// close ends the connection. A bus that is nil is closed.
func (b *bus) close() {
	if b == nil {
		return
	}
	// The library reads its subscriber without a lock, so that stays as it is.
	b.conn.Close()
	b.cancel()
	<-b.done
}

// follow turns signals about the unit into wake-ups until the connection is closed. It reads
// all of them: the library logs those that have no room.
func (b *bus) follow(ctx context.Context, updates <-chan *dbus.PropertiesUpdate, errs <-chan error) {
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

// call bounds a call to systemd.
func call(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return f(ctx)
}

// start asks for a start job. Its result is sent to the channel, or never.
func (b *bus) start(ctx context.Context, result chan<- string) error {
	return call(ctx, func(ctx context.Context) error {
		// Without it a unit that failed too often is not started. A unit that is not loaded
		// has nothing to reset.
		_ = b.conn.ResetFailedUnitContext(ctx, b.unit)
		_, err := b.conn.StartUnitContext(ctx, b.unit, "replace", result)
		return err
	})
}

func (b *bus) stop(ctx context.Context) error {
	return call(ctx, func(ctx context.Context) error {
		_, err := b.conn.StopUnitContext(ctx, b.unit, "replace", nil)
		return err
	})
}

func (b *bus) kill(ctx context.Context) error {
	return call(ctx, func(ctx context.Context) error {
		return b.conn.KillUnitWithTarget(ctx, b.unit, dbus.All, sigkill)
	})
}

const sigkill = 9

func (b *bus) state(ctx context.Context) (state unitState, err error) {
	err = call(ctx, func(ctx context.Context) error {
		properties, err := b.conn.GetAllPropertiesContext(ctx, b.unit)
		state = newUnitState(properties)
		return err
	})
	return state, err
}
