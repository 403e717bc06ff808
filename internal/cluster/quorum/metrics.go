package quorum

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/metric"
)

const (
	resultPromoted = "promoted"
	resultEvicted  = "evicted"
)

type metrics struct{ learners *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{metric.Counters(metric.In(r), "lockstep_cluster_learners_total",
		"Members of the embedded etcd that caught up and vote now (promoted), or were removed because they did not (evicted), on the sidecar of etcd's leader. After an eviction, read the log of the node that joined.",
		"result", resultPromoted, resultEvicted)}
}

func (m *metrics) changed(result string) { m.learners.WithLabelValues(result).Inc() }
