package quorum

import "github.com/prometheus/client_golang/prometheus"

const (
	resultPromoted = "promoted"
	resultEvicted  = "evicted"
)

type metrics struct{ learners *prometheus.CounterVec }

// newMetrics registers nothing if the registerer is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_cluster_learners_total",
		Help: "Members of the embedded etcd that caught up and vote now (promoted), or were removed because they did not (evicted), on the sidecar of etcd's leader. After an eviction, read the log of the node that joined.",
	}, []string{"result"})}
	for _, result := range []string{resultPromoted, resultEvicted} {
		m.learners.WithLabelValues(result)
	}
	if r != nil {
		r.MustRegister(m.learners)
	}
	return m
}

func (m *metrics) changed(result string) { m.learners.WithLabelValues(result).Inc() }
