package status

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/protocol"
)

type metrics struct {
	ready          prometheus.Gauge
	reason         *prometheus.GaugeVec
	closedByStatus prometheus.Counter
	changes        *prometheus.CounterVec
	times          *times
	releases       *releaseChanges
}

func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg)
	m := &metrics{
		ready: in.Gauge("lockstep_status_gate_ready",
			"1 while the gate is open. If it stays 0, lockstep_status_gate_reason shows why."),
		reason: metric.Gauges(in, "lockstep_status_gate_reason",
			"1 for the reason of the current verdict. docs/operations.md has what to do about each.",
			"reason", protocol.Reasons()...),
		closedByStatus: in.Counter("lockstep_status_gate_closed_by_status_total",
			"How often a change of the status closed the gate of a node that served. Above 0 violates an invariant: report it."),
		changes: metric.Counters(in, "lockstep_gate_changes_total",
			"How often the gate got this reason, also between two scrapes.",
			"reason", protocol.Reasons()...),
		times: newTimes(time.Now), releases: newReleaseChanges(in),
	}
	in.CounterSeries("lockstep_gate_seconds_total",
		"How many seconds the gate has had this reason. While the sidecar does not run, nothing counts.",
		[]string{"reason"}, m.times.add)
	return m
}

// show sets the gauges to a verdict with another reason than before, and counts it.
func (m *metrics) show(v Verdict) {
	m.changes.WithLabelValues(string(v.Reason)).Inc()
	m.times.begin(v.Reason)
	m.ready.Set(metric.Bool(v.Ready))
	metric.Choose(m.reason, protocol.Reasons(), v.Reason)
}

// times adds up how long each reason of the gate lasted. A scrape counts the time until
// then.
type times struct {
	now func() time.Time

	mu     sync.Mutex // mu guards the fields below
	before map[protocol.Reason]time.Duration
	reason protocol.Reason // empty: there was no verdict yet
	since  time.Time
}

func newTimes(now func() time.Time) *times {
	return &times{now: now, before: map[protocol.Reason]time.Duration{}}
}

// begin ends the time of the reason before.
func (t *times) begin(reason protocol.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.reason != "" {
		t.before[t.reason] += now.Sub(t.since)
	}
	t.reason, t.since = reason, now
}

// add adds the series of a scrape.
func (t *times) add(series metric.Series) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range protocol.Reasons() {
		sum := t.before[r]
		if r == t.reason {
			sum += t.now().Sub(t.since)
		}
		series(sum.Seconds(), string(r))
	}
}

// releaseChanges measures how long it takes until all objects are of another release, as this sidecar
// observes the status. Only the goroutine of the gate's Run uses it.
type releaseChanges struct {
	duration prometheus.Histogram
	working  prometheus.Gauge

	done  protocol.Version // of the newest status that was DONE; zero: none was observed
	since time.Time        // when the status became WORKING; zero: it is not
}

func newReleaseChanges(in metric.Set) *releaseChanges {
	return &releaseChanges{
		duration: in.Histogram("lockstep_status_release_change_seconds",
			"Time from the first status of another release until DONE, for each upgrade and rollback that this sidecar observed. Compare upgrades with each other.",
			1, 5, 15, 60, 300, 900, 3600),
		working: in.Gauge("lockstep_status_working_timestamp_seconds",
			"Since when the status has been WORKING; 0: it is not. If that is longer than your upgrades take, a leader waits or an object fails: see sidecar status."),
	}
}

// observe learns of the status. One that is missing or corrupt ends nothing: the next valid one counts.
func (c *releaseChanges) observe(now time.Time, view protocol.StatusView) {
	if view.Kind != protocol.StatusPresent {
		return
	}
	switch view.Status.State {
	case protocol.StateUnset: // Decode rejects it
	case protocol.Working:
		if c.since.IsZero() {
			c.since = now
			c.working.Set(metric.Timestamp(now))
		}
	case protocol.Done:
		if c.done != (protocol.Version{}) && c.done.Release != view.Status.Version.Release {
			took := time.Duration(0) // shorter than the time between two observations
			if !c.since.IsZero() {
				took = now.Sub(c.since)
			}
			c.duration.Observe(took.Seconds())
		}
		c.done, c.since = view.Status.Version, time.Time{}
		c.working.Set(0)
	}
}
