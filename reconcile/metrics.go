package reconcile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/metric"
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
	in := metric.In(reg)
	m := &metrics{
		passes: metric.Counters(in, "lockstep_reconcile_passes_total",
			"Passes over the objects. incomplete: some objects failed (see failures in /status); error: the pass could not be made (see lastError in /status).",
			"result", resultComplete, resultIncomplete, resultError),
		duration: in.Histogram("lockstep_reconcile_duration_seconds",
			"How long a pass took. A pass without changes is one list of each kind.",
			.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60),
		lastSuccess: in.Gauge("lockstep_reconcile_last_success_timestamp_seconds",
			"When a pass last left all objects as wanted; 0: never. On the leader, it should not be older than a few resync intervals."),
		objects: metric.Gauges[string](in, "lockstep_reconcile_objects",
			"Objects in the last pass, by state. failed above 0 needs a person: /status lists them. owed: the bundle dropped them, and they wait until no controller of another release is registered and no required object fails. held: a brake keeps them; see reconcile.pruneHeld in /status.",
			"state"),
		writes: metric.Counters(in, "lockstep_reconcile_writes_total",
			"Writes of objects that took effect. If it grows in a quiet cluster, another writer changes the same objects.",
			"verb", exec.Verbs()...),
		repairs: metric.Counters(in, "lockstep_reconcile_repairs_total",
			"Objects that another writer changed or deleted and that were repaired at once. The log names them.",
			"verb", exec.Verbs()...),
		repairTime: in.Histogram("lockstep_reconcile_repair_duration_seconds",
			"How long a repair of an object took. The pauses of a fight do not count.",
			.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5),
		fights: in.Gauge("lockstep_reconcile_fights",
			"Objects that another writer keeps changing back. Above 0 needs a person: see reconcile.drift.fights in /status."),
		strangers: in.Gauge("lockstep_reconcile_strangers",
			"Objects in the last pass that carry the set's label, but that Lockstep did not write or no longer knows: see reconcile.strangers in /status."),
		watching: in.Gauge("lockstep_reconcile_watching",
			"1 while all kinds of the set are watched for drift, as on a leader that is done: see reconcile.drift.problem in /status."),
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
		m.lastSuccess.Set(metric.Timestamp(r.LastSuccess.Time))
	}
	m.show(r)
}

func (m *metrics) repaired(v exec.Verb, duration time.Duration) {
	m.repairs.WithLabelValues(string(v)).Inc()
	m.repairTime.Observe(duration.Seconds())
}

func (m *metrics) kept(d report.Drift) {
	m.fights.Set(float64(len(d.Fights)))
	m.watching.Set(metric.Bool(d.Watching))
}
