package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/metric"
)

// metrics are the metrics of the HTTP API.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	streams  prometheus.Gauge
	tooMany  prometheus.Counter
	panics   prometheus.Counter
	reloads  *prometheus.CounterVec
	refused  *prometheus.CounterVec
	heldOff  prometheus.Gauge

	// By endpoint, for the most frequent responses: the vectors allocate.
	answeredOK map[string]prometheus.Counter
	took       map[string]prometheus.Observer
}

// Results of reloading the certificate files.
const (
	reloadOK     = "ok"
	reloadFailed = "failed"
)

// codes are the status codes of the API; any other counts as "other".
func codes() []int {
	return []int{
		http.StatusOK, http.StatusNotModified, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusConflict,
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
}

func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg)
	m := &metrics{
		requests: in.CounterVec("lockstep_httpapi_requests_total",
			"Requests. 503 of /readyz: this node does not serve. 500: a bug to report.",
			"endpoint", "code"),
		duration: metric.Histograms(in, "lockstep_httpapi_request_duration_seconds",
			"Duration of requests, without streams. A kubelet's probe times out after 1 s; more than 0.1 means that the machine is overloaded.",
			"endpoint", endpoints(), 0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1, 5),
		streams: in.Gauge("lockstep_httpapi_streams",
			"Open streams of /status?watch. The maximum is "+strconv.Itoa(maxStreams)+"; others are refused."),
		tooMany: in.Counter("lockstep_httpapi_refused_streams_total",
			"Streams of /status?watch that were refused with 503: too many were open. Find out which client opens so many."),
		panics: in.Counter("lockstep_httpapi_panics_total",
			"Panics in request handlers. Report each with the stack in the log."),
		reloads: metric.Counters(in, "lockstep_httpapi_certificate_reloads_total",
			"Changes of the TLS files. failed: the last valid certificate stays in use; see the log.",
			"result", reloadOK, reloadFailed),
		refused: metric.Counters(in, "lockstep_httpapi_refused_connections_total",
			"Refused connections and requests of clients without an identity: too many, or too much of a processor. Find out who reaches --listen, and close the port to them. local: too many of programs on this machine.",
			"reason", refusedConnections, refusedLocal, refusedProcessor),
		heldOff: in.Gauge("lockstep_httpapi_addresses_held_off",
			"1: the kernel drops new connections of addresses that were refused again and again. Find out who attacks --listen."),
	}
	m.answeredOK, m.took = map[string]prometheus.Counter{}, map[string]prometheus.Observer{}
	for _, endpoint := range endpoints() {
		m.answeredOK[endpoint] = m.requests.WithLabelValues(endpoint, "200")
		m.took[endpoint] = m.duration.WithLabelValues(endpoint)
	}
	m.requests.WithLabelValues("/readyz", "503")
	m.requests.WithLabelValues("/leader", "503")
	return m
}

// answered counts a response, and times it unless took is 0.
func (m *metrics) answered(endpoint string, code int, took time.Duration) {
	if m.took[endpoint] == nil {
		endpoint = "other"
	}
	if took > 0 {
		m.took[endpoint].Observe(took.Seconds())
	}
	switch {
	case code == http.StatusOK:
		m.answeredOK[endpoint].Inc()
	case slices.Contains(codes(), code):
		m.requests.WithLabelValues(endpoint, strconv.Itoa(code)).Inc()
	default:
		m.requests.WithLabelValues(endpoint, "other").Inc()
	}
}

func (m *metrics) reloaded(result string) { m.reloads.WithLabelValues(result).Inc() }

func (m *metrics) refusedFor(reason string) { m.refused.WithLabelValues(reason).Inc() }
