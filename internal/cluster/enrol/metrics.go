package enrol

import "github.com/prometheus/client_golang/prometheus"

// result is how a request ended.
type result string

const (
	joined      result = "joined"
	invalid     result = "invalid"
	wrongToken  result = "token"
	conflict    result = "conflict"
	limited     result = "limited"
	unavailable result = "unavailable"
	closed      result = "closed"
)

func results() []result {
	return []result{joined, invalid, wrongToken, conflict, limited, unavailable, closed}
}

type metrics struct{ joins *prometheus.CounterVec }

// newMetrics registers nothing if the registerer is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_cluster_join_requests_total",
		Help: "Requests of other nodes to join the embedded etcd. token: a wrong, used, expired or revoked token; limited and closed: too many requests. If token grows and no node is being added, find out who reaches --join-port.",
	}, []string{"result"})}
	for _, res := range results() {
		m.joins.WithLabelValues(string(res))
	}
	if r != nil {
		r.MustRegister(m.joins)
	}
	return m
}

func (m *metrics) answered(res result) { m.joins.WithLabelValues(string(res)).Inc() }
