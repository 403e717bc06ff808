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

// counter makes the metric, and returns a function that counts the results of a kind.
func counter(reg prometheus.Registerer) func(kind string) func(result string) {
	reviews := metric.In(reg).CounterVec("lockstep_reviews_total",
		"Questions to the kube-apiserver about clients of this API. failed: it did not answer, so the client got 503; stale: likewise, and an answer of the last hour was used; refused: not asked, since strangers ask too often (429). If failed or stale grows, check the kube-apiserver in --authentication-kubeconfig, and the rights of its user (ClusterRole system:auth-delegator).",
		"kind", "result")
	for _, kind := range []string{"token", "access"} {
		for _, result := range []string{resultYes, resultNo, resultFailed, resultStale, resultRefused} {
			reviews.WithLabelValues(kind, result)
		}
	}
	return func(kind string) func(string) {
		return func(result string) { reviews.WithLabelValues(kind, result).Inc() }
	}
}
