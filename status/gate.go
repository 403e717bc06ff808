package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// GateConfig configures a Gate. All fields down to Log are required.
type GateConfig struct {
	Store        *Store
	Local        *event.Value[protocol.Local]
	Registration *event.Value[protocol.Registration]
	Contact      *event.Value[etcd.Contact]
	Log          *slog.Logger
	// Withheld is why this node's services keep the gate closed; empty: they do not.
	// nil: it runs none (docs/protocol-nodes.md#services).
	Withheld *event.Value[string]
	// APIServer is why this node's kube-apiserver keeps the node from registering; empty: it
	// does not. nil: it never does (docs/protocol-nodes.md#apiserver-version).
	APIServer *event.Value[string]
	// Override is people's decision that this node serves in spite of its gate. nil:
	// there is none.
	Override   *event.Value[protocol.Override]
	Registerer prometheus.Registerer // nil: no metrics
	Trace      trace.Hook            // of tests and of the flight recorder; nil: nothing is reported
	// Seen learns of each verdict with another reason than the one before, also of one that the
	// next replaces at once. It must not wait. nil: nothing does.
	Seen func(was, now protocol.Verdict)
	// Beat is called in each round. The channel that it returns begins the next round,
	// if nothing else does. nil: rounds begin with changes alone.
	Beat func() <-chan struct{}
}

// Gate is the readiness gate (docs/protocol-nodes.md#gate). It follows registration and
// status while the sidecar runs.
type Gate struct {
	cfg     GateConfig
	metrics *metrics
	verdict *event.Value[Verdict]
	shown   *event.Value[Verdict] // what clients see; Show sets it
	readAt  etcd.At               // of the status in facts; zero: not read since this registration. Only Run uses it
	reads   backoff.Backoff       // after reads of the status that failed

	mu    sync.Mutex // mu guards facts and from, and that verdicts are published in their order
	facts protocol.Facts
	from  statusSource // of the status in facts
}

// Verdict is a verdict, and when its reason began.
type Verdict struct {
	protocol.Verdict
	Since time.Time
}

// The pauses after failed reads of the status.
const (
	minReadPause = 100 * time.Millisecond
	maxReadPause = 3 * time.Second
)

func readPauses() backoff.Backoff {
	return backoff.Backoff{First: minReadPause, Max: maxReadPause, Jitter: backoff.Apart}
}

// NewGate returns a gate that is not ready (Starting).
func NewGate(cfg GateConfig) *Gate {
	cfg.Withheld, cfg.APIServer = cmp.Or(cfg.Withheld, event.New("")), cmp.Or(cfg.APIServer, event.New(""))
	cfg.Override = cmp.Or(cfg.Override, event.New(protocol.Override{}))
	g := &Gate{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), verdict: event.New(Verdict{}), shown: event.New(Verdict{}), reads: readPauses(),
	}
	g.learn(func(f *protocol.Facts) {
		f.Local, f.Services, f.APIServer, f.Override = cfg.Local.Get(), cfg.Withheld.Get(), cfg.APIServer.Get(), cfg.Override.Get()
	})
	return g
}

// Verdict follows the verdict. It is set only when the verdict changes.
func (g *Gate) Verdict() *event.Value[Verdict] { return g.verdict }

// Show acknowledges that clients see a verdict from now on. The code that renders /readyz calls it,
// after the change.
func (g *Gate) Show(v Verdict) {
	event.SetIfNew(g.shown, v)
}

// Shown follows the verdict that clients see. The services of a node stop by this one: while /readyz
// still shows an open gate, clients use them.
func (g *Gate) Shown() *event.Value[Verdict] { return g.shown }

// WaitShown waits until clients see the reason of the verdict. If ctx ends first, it returns ctx's
// error.
func (g *Gate) WaitShown(ctx context.Context) error {
	return event.Until(ctx, g.shown, func(shown Verdict) bool { return shown.Reason == g.verdict.Get().Reason })
}

// Stop closes the gate for good (ShuttingDown). It is closed when Stop returns.
func (g *Gate) Stop() { g.learn(func(f *protocol.Facts) { f.Stopping = true }) }

// Duplicate closes the gate for good (DuplicateNodeID). detail describes the other
// sidecar that uses the node ID.
func (g *Gate) Duplicate(detail string) {
	g.learn(func(f *protocol.Facts) { f.Duplicate = detail })
}

// learn changes the facts and publishes the verdict that follows from them.
func (g *Gate) learn(change func(*protocol.Facts)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.verdict.Get()
	change(&g.facts)
	// A new registration starts with a status that was not read yet, and that
	// closes the gate. So a node that served before the registration does not
	// count as one that serves (docs/protocol-nodes.md#registration).
	g.facts.Served = was.Admitted()
	v := protocol.Judge(g.facts)
	g.traceVerdict(v)
	if v == was.Verdict {
		return
	}
	now := Verdict{Verdict: v, Since: was.Since}
	if v.Ready != was.Ready || v.Reason != was.Reason {
		now.Since = time.Now()
		g.report(was, now)
		if g.cfg.Seen != nil {
			g.cfg.Seen(was.Verdict, now.Verdict)
		}
	}
	g.verdict.Set(now)
}

// report logs and counts a verdict that differs in more than its message.
func (g *Gate) report(was, now Verdict) {
	g.metrics.show(now)
	if now.Reason == protocol.Overridden {
		g.cfg.Log.Error("the gate is closed, and an operator has overridden it: this node serves", "message", now.Message)
		return
	}
	log := g.cfg.Log.With("ready", now.Ready, "reason", string(now.Reason), "message", now.Message)
	if protocol.ViolatesSteady(was.Verdict, now.Verdict) {
		g.metrics.closedByStatus.Inc()
		log.Error("a change of the status closed the gate of a node that served")
		return
	}
	log.Info("verdict changed")
}

// ErrClosed is returned by WaitReady: the gate closed for good, since the
// sidecar stops.
var ErrClosed = errors.New("the gate has closed for good")

// WaitReady returns nil when the verdict is ready. If ctx ends first, it returns
// ctx's error; after Stop and Duplicate, an error that wraps ErrClosed.
func (g *Gate) WaitReady(ctx context.Context) error {
	var closed error
	err := event.Until(ctx, g.verdict, func(v Verdict) bool {
		if v.Reason == protocol.ShuttingDown || v.Reason == protocol.DuplicateNodeID {
			closed = fmt.Errorf("%w: %s: %s", ErrClosed, v.Reason, v.Message)
		}
		return v.Ready || closed != nil
	})
	return cmp.Or(closed, err)
}

// Run keeps the verdict current until ctx ends, and returns ctx's error.
func (g *Gate) Run(ctx context.Context) error {
	for {
		var due <-chan struct{}
		if g.cfg.Beat != nil {
			due = g.cfg.Beat()
		}
		registration, registrationChanged := g.cfg.Registration.Load()
		observed, observedChanged := g.cfg.Store.Observed().Load()
		g.metrics.releases.observe(time.Now(), observed.View)
		contact, contactChanged := g.cfg.Contact.Load()
		local, localChanged := g.cfg.Local.Load()
		withheld, withheldChanged := g.cfg.Withheld.Load()
		apiserver, apiserverChanged := g.cfg.APIServer.Load()
		override, overrideChanged := g.cfg.Override.Load()
		if contact.Reached() {
			contactChanged = nil // etcd stays reached once it was
		}
		g.learn(func(f *protocol.Facts) {
			f.Reached, f.Local, f.Services, f.APIServer, f.Override = contact.Reached(), local, withheld, apiserver, override
			if registration != f.Registration {
				// A status that was read before this registration does not count.
				f.Registration, f.Status, g.readAt = registration, protocol.StatusView{}, etcd.At{}
			}
		})
		retry := g.refreshStatus(ctx, registration, observed)
		if !event.WaitFor(ctx, retry, registrationChanged, observedChanged, contactChanged, localChanged, withheldChanged,
			apiserverChanged, overrideChanged, due) {
			return ctx.Err()
		}
	}
}

// refreshStatus updates the status in the facts. After a new registration it reads
// the status linearizably: nothing that was read before may open the gate
// (docs/protocol-nodes.md#registration). After a failure, retry is the pause before another attempt; 0: none is needed.
func (g *Gate) refreshStatus(ctx context.Context, r protocol.Registration, observed Observed) (retry time.Duration) {
	switch {
	case !r.Matches:
		return 0
	case observed.At.Rewinds > r.Rewinds:
		// The store went back: the registrar registers again. Nothing that was known
		// before counts.
		g.readAt = etcd.At{}
		g.learn(func(f *protocol.Facts) { f.Status = protocol.StatusView{} })
		return 0
	case g.readAt != (etcd.At{}) && !g.readAt.Before(observed.At):
		return 0
	case g.readAt == (etcd.At{}):
		var err error
		if observed, err = g.cfg.Store.Get(ctx); err != nil {
			return g.reads.Next()
		}
		if observed.At.Rewinds != r.Rewinds || observed.At.Revision < r.Revision {
			return g.reads.Next() // the store went back; the registrar registers again
		}
		if g.cfg.Registration.Get() != r {
			return 0 // the registration changed during the read; Run refreshes again
		}
	}
	g.reads.Reset()
	from := statusSource{at: observed.At, linear: g.readAt == (etcd.At{})}
	g.readAt = observed.At
	g.learn(func(f *protocol.Facts) { f.Status, g.from = observed.View, from })
	return 0
}
