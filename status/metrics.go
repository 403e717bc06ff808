package status

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/protocol"
)

type metrics struct {
	ready          prometheus.Gauge
	reason         *prometheus.GaugeVec
	closedByStatus prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		ready: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_status_gate_ready",
			Help: "1 while /readyz reports that this node may serve. If it stays 0, lockstep_status_gate_reason shows why.",
		}),
		reason: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lockstep_status_gate_reason",
			Help: "1 for the reason of the current verdict, 0 for all others. docs/operations.md has what to do about each.",
		}, []string{"reason"}),
		closedByStatus: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_status_gate_closed_by_status_total",
			Help: "How often a change of the status closed the gate of a registered node that served. Anything above 0 violates an invariant: report it.",
		}),
	}
	for _, r := range protocol.Reasons() {
		m.reason.WithLabelValues(string(r)).Set(0)
	}
	if reg != nil {
		reg.MustRegister(m.ready, m.reason, m.closedByStatus)
	}
	return m
}

// show sets the gauges to a verdict.
func (m *metrics) show(v Verdict) {
	m.ready.Set(0)
	if v.Ready {
		m.ready.Set(1)
	}
	for _, r := range protocol.Reasons() {
		m.reason.WithLabelValues(string(r)).Set(0)
	}
	m.reason.WithLabelValues(string(v.Reason)).Set(1)
}
