package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// writes counts the writes of an answer.
type writes struct {
	*httptest.ResponseRecorder
	n int
}

func (w *writes) Write(text []byte) (int, error) {
	w.n++
	return w.ResponseRecorder.Write(text)
}

// brokenMetric is a collector that fails.
type brokenMetric struct{ desc *prometheus.Desc }

func (b brokenMetric) Describe(to chan<- *prometheus.Desc) { to <- b.desc }

func (b brokenMetric) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.NewInvalidMetric(b.desc, errors.New("it is broken"))
}

// TestScrapes: an answer is one write of known length, also the second one, and an error has its code.
func TestScrapes(t *testing.T) {
	registry := prometheus.NewRegistry()
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "many", Help: "Many."}, []string{"i"})
	registry.MustRegister(vec)
	for i := range 1000 {
		vec.WithLabelValues(strconv.Itoa(i)).Set(1)
	}
	fails := prometheus.NewRegistry()
	fails.MustRegister(brokenMetric{prometheus.NewDesc("one", "One.", nil, nil)})
	for _, test := range []struct {
		from prometheus.Gatherer
		code int
		text string
	}{{registry, http.StatusOK, `many{i="999"} 1`}, {fails, http.StatusInternalServerError, "it is broken"}} {
		handler := newScrapes(test.from)
		for range 2 {
			w := &writes{ResponseRecorder: httptest.NewRecorder()}
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
			text := w.Body.String()
			if w.n != 1 || w.Code != test.code || !strings.Contains(text, test.text) || w.Header().Get("Content-Length") != strconv.Itoa(len(text)) {
				t.Errorf("got %d in %d writes, %v, %d bytes, want %d and %q", w.Code, w.n, w.Header(), len(text), test.code, test.text)
			}
		}
	}
}
