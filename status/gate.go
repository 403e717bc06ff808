package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// GateConfig is what a Gate needs.
type GateConfig struct {
	Store        *Store
	Local        *event.Value[protocol.Local]
	Registration *event.Value[protocol.Registration]
	Contact      *event.Value[etcd.Contact]
	Log          *slog.Logger
	Registerer   prometheus.Registerer // nil: no metrics
}

// Gate is the readiness gate: it follows registration and status for as long
// as the sidecar runs.
type Gate struct {
	cfg     GateConfig
	metrics *metrics
	verdict *event.Value[Verdict]
	readAt  etcd.At // of the status in facts; zero: not read for this registration; Run's alone

	mu    sync.Mutex // mu guards facts, and that verdicts are published in the order of facts
	facts protocol.Facts
}

// Verdict is a protocol verdict, and since when it stands.
type Verdict struct {
	protocol.Verdict
	Since time.Time
}

// readPause is the pause before a read of the status that failed is tried
// again.
const readPause = 100 * time.Millisecond

// NewGate returns a gate that is not ready (Starting).
func NewGate(cfg GateConfig) *Gate {
	g := &Gate{cfg: cfg, metrics: newMetrics(cfg.Registerer), verdict: event.New(Verdict{})}
	g.learn(func(f *protocol.Facts) { f.Local = cfg.Local.Get() })
	return g
}

// Verdict follows the verdict. It changes only when the verdict does.
func (g *Gate) Verdict() *event.Value[Verdict] { return g.verdict }

// Stop closes the gate for good (ShuttingDown). The verdict says so when Stop
// returns.
func (g *Gate) Stop() { g.learn(func(f *protocol.Facts) { f.Stopping = true }) }

// Duplicate closes the gate for good (DuplicateNodeID); detail says who else
// has the node ID.
func (g *Gate) Duplicate(detail string) {
	g.learn(func(f *protocol.Facts) { f.Duplicate = detail })
}

// learn changes the facts and judges by them.
func (g *Gate) learn(change func(*protocol.Facts)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.verdict.Get()
	change(&g.facts)
	// A new registration comes with a status that is not read yet, which closes
	// the gate: what served before it does not count (4.2).
	g.facts.Served = was.Ready
	v := protocol.Judge(g.facts)
	if v == was.Verdict {
		return
	}
	now := Verdict{Verdict: v, Since: was.Since}
	if v.Ready != was.Ready || v.Reason != was.Reason {
		now.Since = time.Now()
		g.report(was, now)
	}
	g.verdict.Set(now)
}

// report tells logs and metrics of a verdict that differs in more than words.
func (g *Gate) report(was, now Verdict) {
	g.metrics.show(now)
	log := g.cfg.Log.With("ready", now.Ready, "reason", string(now.Reason), "message", now.Message)
	if protocol.ViolatesSteady(was.Verdict, now.Verdict) {
		g.metrics.steady.Inc()
		log.Error("a change of the status closed the gate of a node that served")
		return
	}
	log.Info("verdict changed")
}

// ErrClosed is returned by WaitReady: the gate has closed for good, since the
// sidecar stops.
var ErrClosed = errors.New("the gate has closed for good")

// WaitReady returns nil when the verdict is ready. If ctx ends first, it returns
// ctx's error; after Stop and Duplicate, an error that wraps ErrClosed.
func (g *Gate) WaitReady(ctx context.Context) error {
	for {
		v, changed := g.verdict.Load()
		if v.Ready {
			return nil
		}
		if v.Reason == protocol.ShuttingDown || v.Reason == protocol.DuplicateNodeID {
			return fmt.Errorf("%w: %s: %s", ErrClosed, v.Reason, v.Message)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Run keeps the verdict true until ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	for {
		registration, registrationChanged := g.cfg.Registration.Load()
		observed, observedChanged := g.cfg.Store.Observed().Load()
		contact, contactChanged := g.cfg.Contact.Load()
		local, localChanged := g.cfg.Local.Load()
		if contact.Reached() {
			contactChanged = nil // reached once is reached for good
		}
		g.learn(func(f *protocol.Facts) {
			f.Reached, f.Local = contact.Reached(), local
			if registration != f.Registration {
				// Whatever was read before tells nothing for this registration.
				f.Registration, f.Status, g.readAt = registration, protocol.StatusView{}, etcd.At{}
			}
		})
		retry := g.look(ctx, registration, observed)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-registrationChanged:
		case <-observedChanged:
		case <-contactChanged:
		case <-localChanged:
		case <-retry:
		}
	}
}

// look brings the status up to date. For a new registration it is read
// linearizably first: nothing that was read before may open the gate (DESIGN
// 4.2). retry says when to try again where that did not succeed.
func (g *Gate) look(ctx context.Context, r protocol.Registration, observed Observed) (retry <-chan time.Time) {
	switch {
	case !r.Confirmed:
		return nil
	case g.readAt != (etcd.At{}) && !g.readAt.Before(observed.At):
		return nil
	case g.readAt == (etcd.At{}):
		var err error
		if observed, err = g.cfg.Store.Get(ctx); err != nil {
			return time.After(readPause)
		}
		if observed.At.Revision < r.Revision {
			return time.After(readPause) // the store went back; the registrar will notice
		}
		if g.cfg.Registration.Get() != r {
			return nil // withdrawn during the read; Run looks again
		}
	}
	g.readAt = observed.At
	g.learn(func(f *protocol.Facts) { f.Status = observed.View })
	return nil
}
