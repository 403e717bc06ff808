package reviews

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/metric"
)

// The results of a review.
const (
	resultYes    = "yes"
	resultNo     = "no"
	resultFailed = "failed"
	resultStale  = "stale"
	// resultRefused: the question was not asked.
	resultRefused = "refused"
)

var resultOf = map[bool]string{true: resultYes, false: resultNo}

type metrics struct{ reviews *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{metric.In(reg).CounterVec("lockstep_reviews_total",
		"Questions to the kube-apiserver about clients of this API. failed: it did not answer, so the client got 503; stale: likewise, and an answer of the last hour was used; refused: not asked, since strangers ask too often (429). If failed or stale grows, check the kube-apiserver in --authentication-kubeconfig, and the rights of its user (ClusterRole system:auth-delegator).",
		"kind", "result")}
	for _, kind := range []string{"token", "access"} {
		for _, result := range []string{resultYes, resultNo, resultFailed, resultStale, resultRefused} {
			m.reviews.WithLabelValues(kind, result)
		}
	}
	return m
}

// counts returns a function that counts the results of a kind.
func (m *metrics) counts(kind string) func(result string) {
	return func(result string) { m.reviews.WithLabelValues(kind, result).Inc() }
}
