package supervise

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/metric"
)

type metrics struct{ restarts *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) metrics {
	return metrics{metric.Counters[string](metric.In(r), "lockstep_app_worker_restarts_total",
		"How often a part of the sidecar failed and was started again. It must not rise: see the log.",
		"worker")}
}
