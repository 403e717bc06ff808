package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

// Config is what a Reconciler needs.
type Config struct {
	// RESTConfig leads to the local apiserver (DESIGN 4.7). Rate limits in it do
	// not count: there are none.
	RESTConfig *rest.Config
	// UserAgent is how the apiserver's log knows us. Empty: "lockstep".
	UserAgent string
	// Bundle is the newest good bundle. It is read at the begin of each pass.
	Bundle *event.Value[*bundle.Bundle]
	// Concurrency is how many objects of a wave are written at once. 0: 16.
	Concurrency int
	// AllowMassPrune lifts the brake on removing more than half of a set.
	AllowMassPrune bool
	// SetName names the set, its parent and its fence. Empty: "lockstep".
	SetName string
	// Namespace is the parent's. Empty: "kube-system".
	Namespace string
	// Log is where a change is told. nil: nowhere.
	Log *slog.Logger
	// Registerer takes the metrics. nil: none are shown.
	Registerer prometheus.Registerer
}

func (c *Config) validate() error {
	if c.RESTConfig == nil {
		return errors.New("reconcile: no RESTConfig")
	}
	if c.Bundle == nil {
		return errors.New("reconcile: no Bundle")
	}
	if c.Concurrency < 0 {
		return fmt.Errorf("reconcile: concurrency %d is below 0", c.Concurrency)
	}
	return nil
}

// defaults returns c with its empty fields filled.
func (c Config) defaults() Config {
	fill := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	fill(&c.UserAgent, "lockstep")
	fill(&c.SetName, "lockstep")
	fill(&c.Namespace, "kube-system")
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Reconciler makes the objects of one set. Its methods may be called from many
// goroutines; one pass runs at a time, and none beside Keep.
type Reconciler struct {
	cfg Config
	env

	turn chan struct{} // holds one token: whoever has it makes the pass, or keeps what it left

	// What follows belongs to whoever has the turn.
	passed   *pass     // the last one, if it is done and was not kept yet
	baseline *baseline // of the last one that was kept; nil: another pass was begun

	mu       sync.Mutex // mu guards prepared
	prepared preparedBundle
}

// env is what passes, Keep and previews of one set share.
type env struct {
	client         *kube.Client
	catalog        *catalog
	set            applyset.Set
	concurrency    int
	allowMassPrune bool
	log            *slog.Logger
	metrics        *metrics
	report         *event.Value[report.Report]
	memory         *memory

	// What follows belongs to the goroutine that makes a pass or keeps objects.
	quarrels quarrels
	drift    report.Drift // as the report shows it
}

// memory has the objects that are in place, from the last passes and repairs.
type memory struct {
	mu     sync.Mutex // mu guards placed
	placed map[applyset.Key]placed
}

// preparedBundle keeps what prepare made of a bundle.
type preparedBundle struct {
	of     *bundle.Bundle
	wanted []wanted
}

// New returns a Reconciler. It connects to nothing.
func New(cfg Config) (*Reconciler, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.defaults()
	client, err := kube.New(cfg.RESTConfig, cfg.UserAgent)
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	r := &Reconciler{
		cfg: cfg,
		env: env{
			client: client, catalog: newCatalog(),
			set:            applyset.Set{Name: cfg.SetName, Namespace: cfg.Namespace},
			concurrency:    cfg.Concurrency,
			allowMassPrune: cfg.AllowMassPrune,
			log:            cfg.Log.With("worker", "reconcile"),
			metrics:        newMetrics(cfg.Registerer),
			report:         event.New(report.Report{}),
			memory:         &memory{placed: map[applyset.Key]placed{}},
			quarrels:       quarrels{},
		},
		turn: make(chan struct{}, 1),
	}
	r.turn <- struct{}{}
	return r, nil
}

// Report is what the last pass came to, and what was repaired since. It is
// written by Reconcile and Keep, of which one runs at a time.
func (r *Reconciler) Report() *event.Value[report.Report] { return r.report }

// Answered returns when the API last answered a request, other than by
// refusing the user or failing; zero: never. While a pass goes on it moves.
func (r *Reconciler) Answered() time.Time { return r.client.Answered() }

// Reconcile makes the objects as work says. Nothing is written after lease(),
// which is asked before each write. An error means that the pass could not be
// done; objects that fail are no error but leave Outcome.Complete false. Until
// quiet, requests of others may land in the API (DESIGN 6.4); zero: none can.
// When ctx ends, a write that is under way may take another two seconds.
func (r *Reconciler) Reconcile(ctx context.Context, work protocol.Work, lease func() time.Time, quiet time.Time) (protocol.Outcome, error) {
	select {
	case <-ctx.Done():
		return protocol.Outcome{}, context.Cause(ctx)
	case <-r.turn:
		defer func() { r.turn <- struct{}{} }()
	}
	began := time.Now()
	r.passed, r.baseline = nil, nil
	p, err := r.newPass(work, lease, quiet)
	if err == nil {
		err = p.run(ctx)
	}
	if err == nil && p.done {
		r.passed = p
	}
	last := r.report.Get()
	latest := last
	if p != nil {
		latest = p.reportAfter(last)
		p.forgetKinds()
	}
	latest.Duration = time.Since(began)
	outcome, result := protocol.Outcome{}, resultError
	if err == nil {
		outcome, result = p.outcome(), resultIncomplete
	} else {
		latest.LastError = err.Error()
	}
	if p != nil {
		outcome.Unsure = p.unsure.last()
	}
	if outcome.Complete {
		result, latest.LastSuccess = resultComplete, time.Now()
	}
	r.metrics.passed(latest, result)
	r.logPass(latest, last, result)
	r.report.Set(latest)
	return outcome, err
}

// logPass logs a pass that wrote something. It warns of failures and of a brake
// on removals when they are new. The leader logs a pass that ended early, since
// it gets the error.
func (r *Reconciler) logPass(latest, last report.Report, result string) {
	n := latest.Objects
	attrs := []any{
		"result", result, "applied", n.Applied, "pruned", n.Pruned, "unchanged", n.Unchanged,
		"failed", n.Failed, "owed", n.Owed, "duration", latest.Duration,
	}
	if latest.PruneHeld != "" && latest.PruneHeld != last.PruneHeld {
		r.log.Warn("removals held", "owed", n.Owed, "reason", latest.PruneHeld)
	}
	switch {
	case result == resultError:
		r.log.Debug("pass ended early", attrs...)
	case latest.TotalFailures > 0 && !slices.Equal(latest.Failures, last.Failures):
		first := latest.Failures[0]
		r.log.Warn("objects failed", append(attrs, "object", first.Object, "err", first.Message)...)
	case n.Applied+n.Pruned > 0:
		r.log.Info("objects written", attrs...)
	default:
		r.log.Debug("objects checked", attrs...)
	}
}

// newPass takes the newest bundle, if it is the one that work was decided for.
func (r *Reconciler) newPass(work protocol.Work, lease func() time.Time, quiet time.Time) (*pass, error) {
	b := r.cfg.Bundle.Get()
	if b == nil || b.Digest != work.Content.Digest {
		changed := &BundleChangedError{Want: work.Content.Digest}
		if b != nil {
			changed.Have = b.Digest
		}
		return nil, changed
	}
	objects, err := r.wanted(b)
	if err != nil {
		return nil, err
	}
	return &pass{
		env: &r.env, api: api{client: r.client, lease: lease, quiet: quiet, unsure: new(doubt)},
		work: work, bundle: b, wanted: objects,
		failed: map[applyset.Key]string{}, stuck: map[applyset.Key]string{}, written: map[applyset.Key]verb{},
	}, nil
}

// wanted prepares each bundle once.
func (r *Reconciler) wanted(b *bundle.Bundle) ([]wanted, error) {
	if b == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prepared.of == b {
		return r.prepared.wanted, nil
	}
	objects, err := prepare(b, r.set)
	if err != nil {
		return nil, err
	}
	r.prepared = preparedBundle{of: b, wanted: objects}
	r.memory.forgetExcept(objects)
	return objects, nil
}

// note remembers objects that are in place.
func (m *memory) note(objects map[applyset.Key]placed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(m.placed, objects)
}

// known returns a copy of what was noted.
func (m *memory) known() map[applyset.Key]placed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.placed)
}

// forgetExcept forgets objects that are no longer wanted.
func (m *memory) forgetExcept(objects []wanted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := map[applyset.Key]placed{}
	for _, w := range objects {
		if was, known := m.placed[w.key]; known {
			kept[w.key] = was
		}
	}
	m.placed = kept
}

func (e *env) gatherer(a api) gatherer {
	return gatherer{api: a, catalog: e.catalog, set: e.set, concurrency: e.concurrency}
}
