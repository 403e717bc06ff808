package app

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newScrapes serves the metrics of a registry, each answer with one write: promhttp writes 4 kB at a time, which
// wakes the reader sixteen times, so that on a busy machine others run in between.
func newScrapes(registry prometheus.Gatherer) http.Handler {
	// To compress 67 kB takes twice as long as all the rest of a scrape, and a compressor keeps a megabyte.
	rendered := promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true})
	texts := sync.Pool{New: func() any { return &scrape{} }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, _ := texts.Get().(*scrape)
		s.ResponseWriter, s.code = w, http.StatusOK
		s.text.Reset()
		rendered.ServeHTTP(s, r)
		w.Header().Set("Content-Length", strconv.Itoa(s.text.Len()))
		w.WriteHeader(s.code)
		_, _ = w.Write(s.text.Bytes()) // the client closed the connection
		s.ResponseWriter = nil
		texts.Put(s)
	})
}

// scrape keeps an answer until it is complete.
type scrape struct {
	http.ResponseWriter
	code int
	text bytes.Buffer
}

func (s *scrape) WriteHeader(code int) { s.code = code }

func (s *scrape) Write(text []byte) (int, error) { return s.text.Write(text) }
