package supervise

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ restarts *prometheus.CounterVec }

// newMetrics registers nothing if the registerer is nil.
func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_app_worker_restarts_total",
		Help: "How often a part of the sidecar failed and was started again. It must not rise: see the log.",
	}, []string{"worker"})}
	if r != nil {
		r.MustRegister(m.restarts)
	}
	return m
}
