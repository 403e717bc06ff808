package show

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/internal/metric"
)

// requestMetrics count and time the requests of this sidecar to its kube-apiserver. Their labels
// are always from closed sets.
type requestMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// The verbs of requests; any other is "other".
func requestVerbs() []string { return []string{"get", "post", "put", "patch", "delete", "other"} }

// The outcomes: the class of the status code, or "none" without an answer.
func requestOutcomes() []string { return []string{"1xx", "2xx", "3xx", "4xx", "5xx", "none"} }

// RegisterRequests returns an observer that counts the requests to the kube-apiserver.
func RegisterRequests(reg prometheus.Registerer) func(method string, code int, took time.Duration) {
	return newRequestMetrics(reg).answered
}

func newRequestMetrics(reg prometheus.Registerer) *requestMetrics {
	in := metric.In(reg)
	m := &requestMetrics{
		requests: in.CounterVec("lockstep_app_apiserver_requests_total",
			"Requests of this sidecar to its kube-apiserver; none: no answer. If none or 5xx grows, check it; 4xx are also normal conflicts.",
			"verb", "outcome"),
		duration: metric.Histograms(in, "lockstep_app_apiserver_request_duration_seconds",
			"How long the kube-apiserver took until it began to answer, at most 5 s.",
			"verb", requestVerbs(), 0.005, 0.025, 0.1, 0.5, 1, 5),
	}
	for _, verb := range requestVerbs() {
		for _, outcome := range requestOutcomes() {
			m.requests.WithLabelValues(verb, outcome)
		}
	}
	info := buildinfo.Get()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "lockstep_app_build_info",
		Help:        "1, with the version and the commit of this program.",
		ConstLabels: prometheus.Labels{"version": info.Version, "commit": info.Commit},
	})
	build.Set(1)
	reg.MustRegister(build)
	return m
}

// RegisterEtcdRequests returns an observer that counts the requests to etcd.
func RegisterEtcdRequests(reg prometheus.Registerer) etcd.Observer {
	in, verbs := metric.In(reg), []etcd.Verb{etcd.Read, etcd.Write, etcd.KeepAlive}
	requests := in.CounterVec("lockstep_etcd_requests_total",
		"Requests of this sidecar to etcd, without watches; refused: an error is the answer; none: no server answered in time. If none grows, see etcd in /status.",
		"verb", "outcome")
	duration := metric.Histograms(in, "lockstep_etcd_request_duration_seconds",
		"How long requests to etcd took, with all attempts at several servers. Above a third of --lease-ttl, leases are in danger: check etcd's disks.",
		"verb", verbs, 0.005, 0.025, 0.1, 0.5, 1, 5)
	for _, verb := range verbs {
		for _, outcome := range []etcd.Outcome{etcd.Answered, etcd.Refused, etcd.Silent} {
			requests.WithLabelValues(string(verb), string(outcome))
		}
	}
	return func(verb etcd.Verb, outcome etcd.Outcome, took time.Duration) {
		requests.WithLabelValues(string(verb), string(outcome)).Inc()
		duration.WithLabelValues(string(verb)).Observe(took.Seconds())
	}
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
