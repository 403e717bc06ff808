package app

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/buildinfo"
)

// requestMetrics are about the requests of this sidecar to its kube-apiserver. Their labels are from
// closed sets, whatever is sent and answered.
type requestMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// The verbs of requests; any other is "other".
func requestVerbs() []string { return []string{"get", "post", "put", "patch", "delete", "other"} }

// The outcomes: the class of the status code, or that there was none.
func requestOutcomes() []string { return []string{"1xx", "2xx", "3xx", "4xx", "5xx", "none"} }

func registerRequests(reg prometheus.Registerer) *requestMetrics {
	m := &requestMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_app_apiserver_requests_total",
			Help: "Requests of this sidecar to its kube-apiserver, by verb and outcome: the class of the status code, or none: there was no answer. If none or 5xx grows, check that kube-apiserver; 4xx are also normal conflicts: /status has what fails.",
		}, []string{"verb", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lockstep_app_apiserver_request_duration_seconds",
			Help:    "How long that kube-apiserver took until it began to answer, by verb. Each request has 5 s at most.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 5},
		}, []string{"verb"}),
	}
	for _, verb := range requestVerbs() {
		m.duration.WithLabelValues(verb)
		for _, outcome := range requestOutcomes() {
			m.requests.WithLabelValues(verb, outcome)
		}
	}
	info := buildinfo.Get()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "lockstep_app_build_info",
		Help:        "1, with the version and the commit of this program. During an upgrade of the sidecars there is more than one.",
		ConstLabels: prometheus.Labels{"version": info.Version, "commit": info.Commit},
	})
	build.Set(1)
	reg.MustRegister(m.requests, m.duration, build)
	return m
}

// answered counts a request. code is 0 if there was no answer.
func (m *requestMetrics) answered(method string, code int, took time.Duration) {
	verb := strings.ToLower(method)
	if !slices.Contains(requestVerbs(), verb) {
		verb = "other"
	}
	outcome := "none"
	if code >= http.StatusContinue && code < 600 {
		outcome = strconv.Itoa(code/100) + "xx"
	}
	m.requests.WithLabelValues(verb, outcome).Inc()
	m.duration.WithLabelValues(verb).Observe(took.Seconds())
}
