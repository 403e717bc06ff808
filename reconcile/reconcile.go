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
	"github.com/lockstep-dev/lockstep/reconcile/internal/drift"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
	"github.com/lockstep-dev/lockstep/report"
)

// Config configures a Reconciler.
type Config struct {
	// RESTConfig leads to this node's kube-apiserver (docs/protocol.md#yielding).
	// Its rate limits are ignored: there are none.
	RESTConfig *rest.Config
	// UserAgent identifies the program in the API server's log. Empty: "lockstep".
	UserAgent string
	// Bundle is the newest valid bundle. It is read at the beginning of each pass.
	Bundle *event.Value[*bundle.Bundle]
	// Concurrency is how many objects of a wave are written at once. 0: 16.
	Concurrency int
	// AllowMassPrune releases the brake on removing more than half of a set.
	AllowMassPrune bool
	// Log gets changes and failures. nil: they are not logged.
	Log *slog.Logger
	// Registerer gets the metrics. nil: there are none.
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
	if c.UserAgent == "" {
		c.UserAgent = "lockstep"
	}
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Reconciler brings the objects of one set in line with a bundle. Its methods may be called
// from many goroutines. One pass runs at a time, and none while Keep runs.
type Reconciler struct {
	env

	free chan struct{} // holds one token, which Reconcile and Keep take

	// The fields below belong to the owner of the token.
	passed   *pass           // the last one, if it is done and was not kept yet
	baseline *drift.Baseline // of the last pass that was kept; nil: another pass began since

	mu         sync.Mutex // mu guards the fields below
	prepared   []plan.Wanted
	preparedOf *bundle.Bundle
}

// The parent of the set: the ConfigMap with the mark and the store ID
// (docs/protocol-objects.md#mark).
const (
	ParentName      = "lockstep"
	ParentNamespace = "kube-system"
)

// FenceName is the name of both objects of the fence (docs/bundles.md#the-fence).
const FenceName = ParentName + "-fence." + ParentNamespace

// New returns a Reconciler. It sends no request.
func New(cfg Config) (*Reconciler, error) {
	return newForSet(cfg, applyset.Set{Name: ParentName, Namespace: ParentNamespace})
}

// newForSet is New for a set with another parent.
func newForSet(cfg Config, s applyset.Set) (*Reconciler, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.defaults()
	client, err := kube.New(cfg.RESTConfig, cfg.UserAgent)
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	r := &Reconciler{
		env: env{
			cfg: cfg, client: client, catalog: new(exec.Catalog), set: s,
			log:     cfg.Log.With("worker", "reconcile"),
			metrics: newMetrics(cfg.Registerer),
			report:  event.New(report.Reconcile{}),
			memory:  &memory{placed: map[applyset.Key]plan.Placed{}},
			fights:  drift.Fights{},
		},
		free: make(chan struct{}, 1),
	}
	r.free <- struct{}{}
	return r, nil
}

// Report returns the report of the last pass, with the repairs since.
func (r *Reconciler) Report() *event.Value[report.Reconcile] { return r.report }

// Answered returns when the API server last answered a request, other than by
// refusing the user or failing; zero: never. It moves while a pass runs.
func (r *Reconciler) Answered() time.Time { return r.client.Answered() }

// Trouble returns why the API server cannot be used now; zero: it can.
func (r *Reconciler) Trouble() report.Trouble { return r.client.Trouble() }

// begin takes the token. The caller calls end when it is done.
func (r *Reconciler) begin(ctx context.Context) (end func(), err error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-r.free:
		return func() { r.free <- struct{}{} }, nil
	}
}

// Reconcile makes the objects as work says. Nothing is written after lease(),
// which is called before each write. An error means that the pass could not be
// made. Objects that fail are no error, but leave Outcome.Complete false. Until
// quiet, requests of other leaders may land in the API
// (docs/protocol-objects.md#stale-writes); zero: none can. When ctx ends, a write that is
// under way may take another two seconds.
func (r *Reconciler) Reconcile(ctx context.Context, work protocol.Work, lease func() time.Time, quiet time.Time) (protocol.Outcome, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return protocol.Outcome{}, err
	}
	defer end()
	began := time.Now()
	r.passed, r.baseline = nil, nil
	last := r.report.Get()
	p, err := r.newPass(work, lease, quiet)
	if err != nil {
		last.LastError = err.Error()
		r.publish(last, began, resultError)
		return protocol.Outcome{}, err
	}
	err = p.run(ctx)
	p.forgetKinds()
	now := p.reportAfter(last)
	if err != nil {
		now.LastError = r.lastError(ctx, last, err)
		r.publish(now, began, resultError)
		return protocol.Outcome{Unsure: p.Unknown.Time()}, err
	}
	if !p.done {
		r.publish(now, began, resultIncomplete)
		return p.outcome(), nil
	}
	r.passed = p
	now.LastSuccess = report.At(time.Now())
	r.publish(now, began, resultComplete)
	return p.outcome(), nil
}

// lastError returns the error to show of a pass that ended early. If the leader ended it, that
// is the trouble of the requests, not the cancellation.
func (r *Reconciler) lastError(ctx context.Context, last report.Reconcile, err error) string {
	trouble := r.Trouble()
	switch {
	case ctx.Err() == nil:
		return err.Error()
	case trouble != (report.Trouble{}):
		return trouble.String()
	}
	return last.LastError
}

// publish makes now the report of a pass that began then.
func (r *Reconciler) publish(now report.Reconcile, began time.Time, result string) {
	last := r.report.Get()
	took := time.Since(began)
	now.DurationSeconds = took.Seconds()
	r.metrics.passed(now, result)
	r.logPass(now, last, result, took)
	r.report.Set(now)
}

// logPass logs a pass that wrote something. It warns of failures and of a brake
// on removals when they are new. The leader logs a pass that ended early, since
// it gets the error.
func (r *Reconciler) logPass(now, last report.Reconcile, result string, took time.Duration) {
	n := now.Objects
	attrs := []any{
		"result", result, "applied", n.Applied, "pruned", n.Pruned, "unchanged", n.Unchanged,
		"failed", n.Failed, "owed", n.Owed, "duration", took,
	}
	if now.PruneHeld != "" && now.PruneHeld != last.PruneHeld {
		r.log.Warn("removals held", "owed", n.Owed, "reason", now.PruneHeld)
	}
	if now.TotalStrangers > 0 && last.TotalStrangers == 0 {
		first := now.Strangers[0]
		r.log.Warn("objects of other users carry the label of the set, and are left alone",
			"total", now.TotalStrangers, "object", first.Object, "fieldManager", first.Manager)
	}
	switch {
	case result == resultError:
		r.log.Debug("pass ended early", attrs...)
	case now.TotalFailures > 0 && !slices.Equal(now.Failures, last.Failures):
		first := now.Failures[0]
		r.log.Warn("objects failed", append(attrs, "object", first.Object, "err", first.Message)...)
	case n.Applied+n.Pruned > 0:
		r.log.Info("objects written", attrs...)
	default:
		r.log.Debug("objects checked", attrs...)
	}
}

// newPass prepares a pass over the newest bundle, if the work was decided for it.
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
		API: exec.API{Client: r.client, Set: r.set, Lease: lease, Quiet: quiet, Unknown: new(exec.LastUnknown)},
		env: &r.env, work: work, bundle: b, wanted: objects,
		failed: map[applyset.Key]string{}, stuck: map[applyset.Key]string{}, written: map[applyset.Key]exec.Verb{},
	}, nil
}

// wanted prepares each bundle once. nil contains no objects.
func (r *Reconciler) wanted(b *bundle.Bundle) ([]plan.Wanted, error) {
	if b == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.preparedOf == b {
		return r.prepared, nil
	}
	objects, err := plan.Prepare(b, r.set)
	if err != nil {
		return nil, err
	}
	r.prepared, r.preparedOf = objects, b
	r.memory.forgetExcept(objects)
	return objects, nil
}

// env is shared by the passes, Keep and the previews of one set.
type env struct {
	cfg     Config
	client  *kube.Client
	catalog *exec.Catalog
	set     applyset.Set
	log     *slog.Logger
	metrics *metrics
	report  *event.Value[report.Reconcile]
	memory  *memory

	// The fields below belong to the goroutine that makes a pass or keeps objects.
	fights drift.Fights
	drift  report.Drift // as the report shows it
}

func (e *env) gatherer(a exec.API, m applyset.Members) exec.Gatherer {
	return exec.Gatherer{API: a, Catalog: e.catalog, Members: m, Concurrency: e.cfg.Concurrency}
}

// memory holds the objects that are in place, from the last passes and repairs.
type memory struct {
	mu     sync.Mutex // mu guards placed
	placed map[applyset.Key]plan.Placed
}

// note remembers objects that are in place.
func (m *memory) note(objects map[applyset.Key]plan.Placed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(m.placed, objects)
}

// known returns a copy of placed.
func (m *memory) known() map[applyset.Key]plan.Placed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.placed)
}

// forgetExcept forgets objects that are no longer wanted.
func (m *memory) forgetExcept(objects []plan.Wanted) {
	kept := plan.MembersOf(objects, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.placed, func(k applyset.Key, _ plan.Placed) bool { return !kept.Wanted[k] })
}
