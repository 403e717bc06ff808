package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
)

// Config configures one service. Unit is required.
type Config struct {
	Unit string // such as kube-apiserver.service
	// StopTimeout is how long the unit may take to stop before all its processes are killed.
	StopTimeout time.Duration
	// Connect opens a connection on which systemd answers; nil: over the system bus, and without a bus
	// if that does not work and the sidecar is root. The end of the context closes the connection.
	Connect func(context.Context) (*dbus.Conn, error)
	// Free returns when a new instance may start. After its error, which names the obstacle, Run
	// starts nothing. nil: a new instance may always start.
	Free func(context.Context) error
	Log  *slog.Logger // nil: none
}

// Driver runs a service as a unit of systemd.
type Driver struct {
	cfg  Config
	ways []connectFunc
	// reached: systemd answered this driver once. A socket that is missing later appears again.
	reached bool
}

// New returns a driver. It starts nothing; Run does.
func New(cfg Config) *Driver {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	ways := []connectFunc{onBus, withoutBus}
	if cfg.Connect != nil {
		ways = []connectFunc{cfg.Connect}
	}
	return &Driver{cfg: cfg, ways: ways}
}

// LastLines returns nothing: the journal contains the output of the unit.
func (d *Driver) LastLines() []string { return nil }

const (
	// pollInterval is the time between two reads of the state without a signal. Signals can be lost.
	pollInterval = 2 * time.Second
	// settle is how long a unit must be active until it counts as running: a unit of Type=simple is
	// active before systemd finds that its program is missing.
	settle = 200 * time.Millisecond
	// reconnectPause is the first pause between attempts to connect, maxReconnectPause the longest
	// one.
	reconnectPause    = 50 * time.Millisecond
	maxReconnectPause = 2 * time.Second
	// killTimeout is how long a unit may take to end after SIGKILL.
	killTimeout = 10 * time.Second
)

// Run starts the unit, and returns when it has ended and systemd does not start it again by itself.
// It first stops a unit that already runs, since it does not know which program that runs. When ctx
// ends, Run stops the unit.
func (d *Driver) Run(ctx context.Context, running func()) driver.Exit {
	r := &run{Driver: d, result: make(chan string, 1)}
	r.pauses = backoff.Backoff{First: reconnectPause, Max: maxReconnectPause}
	defer func() { r.bus.close() }()
	if ctx.Err() != nil {
		return r.stop(ctx)
	}
	if exit, begun := r.begin(ctx); !begun {
		return exit
	}
	for ctx.Err() == nil {
		state, err := r.observe(ctx)
		switch {
		case err != nil:
			continue // observe waited
		case state.ended():
			return driver.Exit{Reason: state.reason(d.cfg.Unit, r.jobResult(ctx))}
		case state.runs() && state.Invocation != r.invocation:
			if !backoff.Sleep(ctx, settle) {
				continue
			}
			if again, err := r.observe(ctx); err == nil && again.runs() && again.Invocation == state.Invocation {
				r.invocation = state.Invocation
				running()
			}
			continue
		}
		r.wait(ctx, pollInterval)
	}
	return r.stop(ctx)
}

// run is the state of one Run.
type run struct {
	*Driver
	bus        *bus        // nil: not connected
	result     chan string // of the start job
	invocation string      // the running one that was last reported; empty: none
	pauses     backoff.Backoff
	lost       bool // the lost connection is logged
}

// begin stops the unit if it runs, and starts it. It reports whether it started the unit.
func (r *run) begin(ctx context.Context) (exit driver.Exit, begun bool) {
	if err := r.connect(ctx); err != nil {
		return r.unknown(ctx, err), false
	}
	state, err := r.bus.state(ctx)
	if err != nil {
		return r.unknown(ctx, fmt.Errorf("read the state of unit %s: %w", r.cfg.Unit, err)), false
	}
	if !state.ended() {
		r.cfg.Log.InfoContext(ctx, "stopping the unit that runs already", "unit", r.cfg.Unit)
		if exit := r.stop(ctx); exit.StillRuns {
			return exit, false
		}
		if err := r.connect(ctx); err != nil {
			return driver.Exit{Reason: err.Error()}, false
		}
	}
	if ctx.Err() != nil {
		return driver.Exit{Reason: "stopped before it was started"}, false
	}
	if r.cfg.Free != nil {
		if err := r.cfg.Free(ctx); err != nil {
			return driver.Exit{Reason: err.Error()}, false
		}
	}
	if err := r.bus.start(ctx, r.result); err != nil {
		// The job may exist nevertheless, if the bus ended before it answered.
		if exit := r.stop(ctx); exit.StillRuns {
			return exit, false
		}
		return driver.Exit{Reason: fmt.Sprintf("start unit %s: %v", r.cfg.Unit, err)}, false
	}
	return driver.Exit{}, true
}

// unknown ends an attempt that does not know whether the unit runs: an earlier sidecar may have
// started it.
func (r *run) unknown(ctx context.Context, err error) driver.Exit {
	switch {
	case r.absent(err):
		return driver.Exit{Reason: err.Error()}
	case ctx.Err() != nil:
		return r.stop(ctx)
	}
	return driver.Exit{Reason: err.Error(), StillRuns: true}
}

// connect opens a connection if there is none.
func (r *run) connect(ctx context.Context) error {
	if r.bus != nil && r.bus.conn.Connected() {
		return nil
	}
	r.bus.close()
	r.bus = nil
	b, err := dial(ctx, r.ways, r.cfg.Unit)
	if err != nil {
		return err
	}
	r.bus, r.reached = b, true
	return nil
}

// absent reports whether there is no systemd, and so no unit.
func (r *run) absent(err error) bool { return !r.reached && errors.Is(err, errAbsent) }

// observe returns the state of the unit. After an error it pauses before it returns.
func (r *run) observe(ctx context.Context) (unitState, error) {
	state, err := r.read(ctx)
	if err == nil {
		r.pauses.Reset()
		if r.lost {
			r.lost = false
			r.cfg.Log.InfoContext(ctx, "systemd answers again", "unit", r.cfg.Unit)
		}
		return state, nil
	}
	if !r.lost && ctx.Err() == nil {
		r.lost = true
		r.cfg.Log.WarnContext(ctx, "systemd does not answer, the state of the unit is not known", "unit", r.cfg.Unit, "err", err)
	}
	r.pauses.Sleep(ctx)
	return unitState{}, err
}

func (r *run) read(ctx context.Context) (unitState, error) {
	if err := r.connect(ctx); err != nil {
		return unitState{}, err
	}
	state, err := r.bus.state(ctx)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		// The bus hangs: the next attempt uses another connection.
		r.bus.close()
		r.bus = nil
	}
	return state, err
}

// wait returns when the unit may have changed.
func (r *run) wait(ctx context.Context, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.bus.wake:
	case <-timer.C:
	}
}

// jobResult returns the result of the start job; empty: unknown. The result may arrive after the
// state that the job caused, or never.
func (r *run) jobResult(ctx context.Context) string {
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case result := <-r.result:
		return result
	case <-timer.C:
	case <-ctx.Done():
	}
	return ""
}

// stop stops the unit, and returns when it has ended. After the timeout it kills all processes of
// the unit. ctx may have ended before.
func (r *run) stop(ctx context.Context) driver.Exit {
	timeout := time.Now().Add(r.cfg.StopTimeout)
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), timeout.Add(killTimeout))
	defer cancel()
	var asked *bus // the connection that asked for the stop job
	late := false
	for ctx.Err() == nil {
		state, err := r.observe(ctx)
		if r.absent(err) {
			return driver.Exit{Reason: err.Error()}
		}
		if err != nil {
			continue
		}
		if state.ended() {
			how := "stopped"
			if late {
				how = fmt.Sprintf("did not stop within %s, and was killed", r.cfg.StopTimeout)
			}
			return driver.Exit{Reason: fmt.Sprintf("%s: unit %s is %s (%s)", how, r.cfg.Unit, state.Active, state.Sub)}
		}
		switch now := time.Now(); {
		case !now.Before(timeout):
			late = true
			err = r.bus.kill(ctx)
		case asked != r.bus:
			asked = r.bus
			err = r.bus.stop(ctx)
		}
		if err != nil {
			r.cfg.Log.WarnContext(ctx, "unit not stopped", "unit", r.cfg.Unit, "err", err)
		}
		r.wait(ctx, min(pollInterval, max(time.Until(timeout), settle)))
	}
	return driver.Exit{StillRuns: true, Reason: fmt.Sprintf("unit %s does not stop, or systemd does not answer; see systemctl status %s", r.cfg.Unit, r.cfg.Unit)}
}
