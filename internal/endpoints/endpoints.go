// Package endpoints keeps the addresses of the nodes in service in the Service kubernetes: in
// its EndpointSlices, and in the Endpoints of the same name
// (docs/protocol-endpoints.md#kubernetes-service). It owns these objects. Package protocol decides their
// contents, and which sidecar writes them first.
//
// Publisher.Run uses one goroutine that decides and writes, and one for each of the two
// watches. While nothing changes, none of them sends a request.
package endpoints

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
	"github.com/lockstep-dev/lockstep/report"
)

// Config configures a Publisher. All fields except Registerer are required.
type Config struct {
	Node       protocol.NodeID
	Own        protocol.Endpoint // of this node, as in its presence
	API        *kube.Client      // of this node's kube-apiserver
	Etcd       *etcd.Client
	Fleet      *event.Value[protocol.Fleet] // as it was last observed: it wakes the publisher
	Store      *event.Value[fleet.StoreKey] // likewise
	Parent     Parent
	Log        *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Parent names the ConfigMap whose annotation lockstep.dev/store names the store that the
// objects of the API belong to (docs/protocol-objects.md#stores).
type Parent struct{ Namespace, Name string }

// State describes the Service and the work of a Publisher.
type State struct {
	// Endpoints are what people see. Reason is one of publish.Reasons, and Addresses are sorted by family.
	report.Endpoints
	// RemovalPending: if the gate of this node is closed, its address may still leave.
	RemovalPending bool
}

func (s State) equal(o State) bool {
	s.Since = o.Since
	return reflect.DeepEqual(s, o)
}

// Publisher writes the Service.
type Publisher struct {
	cfg     Config
	metrics *metrics
	seen    *event.Value[observed]
	state   *event.Value[State]

	// Only Run uses these.
	decoder fleet.Decoder
	due     time.Time // when a change is written that was noticed; zero: there is none
	pauses  backoff.Backoff
	problem string // why the last attempt failed; empty: it did not
	parent  parentStore
}

const (
	// The pauses after an attempt that did not help.
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
	// snapshotTimeout bounds the read of etcd.
	snapshotTimeout = 3 * time.Second
)

// New returns a publisher that has read nothing yet.
func New(cfg Config) *Publisher {
	unread := report.Endpoints{Enabled: true, Reason: string(publish.EndpointsUnread), Since: report.At(time.Now())}
	return &Publisher{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), seen: event.New(observed{}),
		state:  event.New(State{Endpoints: unread, RemovalPending: true}),
		pauses: backoff.Backoff{First: minPause, Max: maxPause, Jitter: 0.2},
	}
}

// State follows the published addresses, and the reason for them.
func (p *Publisher) State() *event.Value[State] { return p.state }

// Run writes the Service until ctx ends, and returns ctx's error.
func (p *Publisher) Run(ctx context.Context) error {
	following, cancel := context.WithCancel(ctx)
	var watches sync.WaitGroup
	defer func() { cancel(); watches.Wait() }()
	watches.Go(func() { p.follow(following, sliceResource) })
	watches.Go(func() { p.follow(following, endpointsResource) })
	for {
		fleet, fleetChanged := p.cfg.Fleet.Load()
		_, storeChanged := p.cfg.Store.Load()
		seen, seenChanged := p.seen.Load()
		if again := p.round(ctx, fleet, seen); !event.WaitFor(ctx, again, fleetChanged, storeChanged, seenChanged) {
			return ctx.Err()
		}
	}
}

// round decides from what was observed, which costs nothing, and writes if that is due.
// It returns when the next round is, if nothing changes; 0: never.
func (p *Publisher) round(ctx context.Context, observedFleet protocol.Fleet, seen observed) time.Duration {
	store := p.cfg.Store.Get().ID
	p.readParent(ctx, store, seen)
	now := p.plan(observedFleet, store, seen)
	p.show(observedFleet, seen, now)
	if !now.writes() {
		p.due, p.problem = time.Time{}, ""
		p.pauses.Reset()
		p.show(observedFleet, seen, now)
		return now.retry()
	}
	if p.due.IsZero() {
		p.due = time.Now().Add(publish.Delay(observedFleet, p.cfg.Node))
	}
	if wait := time.Until(p.due); wait > 0 {
		return wait
	}
	err := p.attempt(ctx, seen)
	if ctx.Err() != nil {
		return 0
	}
	pause := p.pauses.Next()
	was := p.problem
	p.problem = ""
	if err != nil {
		p.problem = err.Error()
		level := slog.LevelDebug
		if was == "" {
			level = slog.LevelWarn
		}
		p.cfg.Log.Log(ctx, level, "service not written, trying again", "in", pause, "err", err)
		p.show(observedFleet, seen, now)
	}
	p.due = time.Now().Add(pause)
	return pause
}
