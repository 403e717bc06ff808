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

// RegisterRequests returns an observer that counts and times the requests of this sidecar to its kube-apiserver. A code of 0 is
// no answer. The labels are always from closed sets.
func RegisterRequests(reg prometheus.Registerer) func(method string, code int, took time.Duration) {
	in, verbs := metric.In(reg), []string{"get", "post", "put", "patch", "delete", "other"}
	requests := in.CounterVec("lockstep_app_apiserver_requests_total",
		"Requests of this sidecar to its kube-apiserver; none: no answer. If none or 5xx grows, check it; 4xx are also normal conflicts.",
		"verb", "outcome")
	duration := metric.Histograms(in, "lockstep_app_apiserver_request_duration_seconds",
		"How long the kube-apiserver took until it began to answer, at most 5 s.",
		"verb", verbs, 0.005, 0.025, 0.1, 0.5, 1, 5)
	for _, verb := range verbs {
		for _, outcome := range []string{"1xx", "2xx", "3xx", "4xx", "5xx", "none"} {
			requests.WithLabelValues(verb, outcome)
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
	return func(method string, code int, took time.Duration) {
		verb, outcome := strings.ToLower(method), "none"
		if !slices.Contains(verbs, verb) {
			verb = "other"
		}
		if code >= http.StatusContinue && code < 600 {
			outcome = strconv.Itoa(code/100) + "xx"
		}
		requests.WithLabelValues(verb, outcome).Inc()
		duration.WithLabelValues(verb).Observe(took.Seconds())
	}
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
