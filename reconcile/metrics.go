package reconcile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/report"
)

// metrics of reconciliation in this process. A sidecar that does not lead keeps the
// figures of its last pass.
type metrics struct {
	passes      *prometheus.CounterVec
	duration    prometheus.Histogram
	lastSuccess prometheus.Gauge
	objects     *prometheus.GaugeVec
	writes      *prometheus.CounterVec
	repairs     *prometheus.CounterVec
	repairTime  prometheus.Histogram
	fights      prometheus.Gauge
	strangers   prometheus.Gauge
	watching    prometheus.Gauge
}

// The results of a pass.
const (
	resultComplete   = "complete"
	resultIncomplete = "incomplete"
	resultError      = "error"
)

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		passes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_reconcile_passes_total",
			Help: "Passes over the objects. incomplete: some objects failed (see failures in /status); error: the pass could not be made (see lastError in /status).",
		}, []string{"result"}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "lockstep_reconcile_duration_seconds",
			Help:    "How long a pass took. A pass without changes is one list of each kind.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		lastSuccess: f.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_reconcile_last_success_timestamp_seconds",
			Help: "When a pass last left all objects as wanted; 0: never. On the leader, it should not be older than a few resync intervals.",
		}),
		objects: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lockstep_reconcile_objects",
			Help: "Objects in the last pass, by state. failed above 0 needs a person: /status lists them. owed: the bundle dropped them, and they wait until no controller of another release is registered and no required object fails. held: a brake keeps them; see reconcile.pruneHeld in /status.",
		}, []string{"state"}),
		writes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_reconcile_writes_total",
			Help: "Writes of objects that took effect. If it grows in a quiet cluster, another writer changes the same objects.",
		}, []string{"verb"}),
		repairs: f.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_reconcile_repairs_total",
			Help: "Objects that another writer changed or deleted and that were repaired at once. The log names them.",
		}, []string{"verb"}),
		repairTime: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "lockstep_reconcile_repair_duration_seconds",
			Help:    "How long a repair of an object took. The pauses of a fight do not count.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}),
		fights: f.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_reconcile_fights",
			Help: "Objects that another writer keeps changing back. Above 0 needs a person: see reconcile.drift.fights in /status.",
		}),
		strangers: f.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_reconcile_strangers",
			Help: "Objects in the last pass that carry the set's label, but that Lockstep did not write or no longer knows: see reconcile.strangers in /status.",
		}),
		watching: f.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_reconcile_watching",
			Help: "1 while all kinds of the set are watched for drift, as on a leader that is done: see reconcile.drift.problem in /status.",
		}),
	}
	for _, v := range exec.Verbs() {
		m.repairs.WithLabelValues(string(v))
	}
	for _, result := range []string{resultComplete, resultIncomplete, resultError} {
		m.passes.WithLabelValues(result)
	}
	for _, v := range exec.Verbs() {
		m.writes.WithLabelValues(string(v))
	}
	m.show(report.Reconcile{})
	return m
}

func (m *metrics) wrote(v exec.Verb) {
	if v != exec.VerbNone {
		m.writes.WithLabelValues(string(v)).Inc()
	}
}

func (m *metrics) show(r report.Reconcile) {
	for state, n := range map[string]int{
		"desired": r.Objects.Desired, "applied": r.Objects.Applied, "unchanged": r.Objects.Unchanged,
		"failed": r.Objects.Failed, "pruned": r.Objects.Pruned, "owed": r.Objects.Owed, "held": r.Held(),
	} {
		m.objects.WithLabelValues(state).Set(float64(n))
	}
}

func (m *metrics) passed(r report.Reconcile, result string) {
	m.passes.WithLabelValues(result).Inc()
	m.duration.Observe(r.DurationSeconds)
	m.strangers.Set(float64(r.TotalStrangers))
	if result == resultComplete {
		m.lastSuccess.Set(float64(r.LastSuccess.UnixMilli()) / 1000)
	}
	m.show(r)
}

func (m *metrics) repaired(v exec.Verb, duration time.Duration) {
	m.repairs.WithLabelValues(string(v)).Inc()
	m.repairTime.Observe(duration.Seconds())
}

func (m *metrics) kept(d report.Drift) {
	m.fights.Set(float64(len(d.Fights)))
	m.watching.Set(0)
	if d.Watching {
		m.watching.Set(1)
	}
}
