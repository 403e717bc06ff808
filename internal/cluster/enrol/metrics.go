package enrol

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/metric"
)

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

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{metric.Counters(metric.In(r), "lockstep_cluster_join_requests_total",
		"Requests of other nodes to join the embedded etcd. token: a wrong, used, expired or revoked token; limited and closed: too many requests. If token grows and no node is being added, find out who reaches --join-port.",
		"result", results()...)}
}

func (m *metrics) answered(res result) { m.joins.WithLabelValues(string(res)).Inc() }
