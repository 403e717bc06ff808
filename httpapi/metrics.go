package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the package's own. All methods may be called on nil.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	streams  prometheus.Gauge
	panics   prometheus.Counter
	reloads  *prometheus.CounterVec
	expiry   prometheus.Gauge
}

// Results of reading the certificate files again.
const (
	reloadOK     = "ok"
	reloadFailed = "failed"
)

// codes are the status codes that the API gives; any other counts as "other".
func codes() []int {
	return []int{
		http.StatusOK, http.StatusNotModified, http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		return nil
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_httpapi_requests_total",
			Help: "Requests answered, by endpoint and status code. 503 of /readyz is the gate; 500 is a fault to report.",
		}, []string{"endpoint", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lockstep_httpapi_request_duration_seconds",
			Help:    "Time to answer, by endpoint, without streams. A kubelet gives a probe 1 s; more than 0.1 means that the machine is overloaded.",
			Buckets: []float64{0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1, 5},
		}, []string{"endpoint"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_httpapi_streams",
			Help: "Open streams of /status?watch. At " + strconv.Itoa(maxStreams) + " further ones are refused.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_httpapi_panics_total",
			Help: "Panics while answering. Any is a fault: the log has the stack to report.",
		}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_httpapi_certificate_reloads_total",
			Help: "Changes of the TLS files that were taken over (ok) or could not be (failed: the last good certificate stays; see the log).",
		}, []string{"result"}),
		expiry: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_httpapi_certificate_expiry_timestamp_seconds",
			Help: "When the serving certificate expires; 0 without TLS. Replace the file before that.",
		}),
	}
	m.preset()
	reg.MustRegister(m.requests, m.duration, m.streams, m.panics, m.reloads, m.expiry)
	return m
}

// preset creates the series that alerts are written on.
func (m *metrics) preset() {
	for _, endpoint := range endpoints() {
		m.requests.WithLabelValues(endpoint, "200")
		m.duration.WithLabelValues(endpoint)
	}
	m.requests.WithLabelValues("/readyz", "503")
	m.requests.WithLabelValues("/leader", "503")
	m.reloads.WithLabelValues(reloadOK)
	m.reloads.WithLabelValues(reloadFailed)
}

func (m *metrics) answered(endpoint string, code int) {
	if m == nil {
		return
	}
	label := "other"
	if slices.Contains(codes(), code) {
		label = strconv.Itoa(code)
	}
	m.requests.WithLabelValues(known(endpoint), label).Inc()
}

func (m *metrics) timed(endpoint string, took time.Duration) {
	if m != nil {
		m.duration.WithLabelValues(known(endpoint)).Observe(took.Seconds())
	}
}

func known(endpoint string) string {
	if slices.Contains(endpoints(), endpoint) {
		return endpoint
	}
	return "other"
}

func (m *metrics) panicked() {
	if m != nil {
		m.panics.Inc()
	}
}

func (m *metrics) streaming(delta float64) {
	if m != nil {
		m.streams.Add(delta)
	}
}

func (m *metrics) reloaded(result string) {
	if m != nil {
		m.reloads.WithLabelValues(result).Inc()
	}
}

func (m *metrics) expires(at time.Time) {
	if m != nil {
		m.expiry.Set(float64(at.Unix()))
	}
}
