package journal

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/internal/metric"
)

type metrics struct {
	happenings *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{metric.Counters(metric.In(reg), "lockstep_history_happenings_total",
		"What happened to this node and, while it leads, to the fleet, by kind: see sidecar history.", "kind", history.Kinds()...)}
}

func (m *metrics) count(n history.News) {
	m.happenings.WithLabelValues(string(n.Kind)).Add(float64(n.Count))
}
