package httpapi

import (
	"net/http"
	"strconv"
)

// memberMetrics is for /metrics/etcd: the metrics of this node's etcd member. The member serves them only to
// certificates with all rights in that etcd, so the sidecar passes them on. A second request at the same moment is
// refused: the answer takes some work.
func (s *Server) memberMetrics(w http.ResponseWriter, r *http.Request) {
	if s.cfg.MemberMetrics == nil {
		s.problem(w, http.StatusNotFound, "etcd runs elsewhere (--etcd=external): scrape it there")
		return
	}
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	default:
		w.Header().Set("Retry-After", "1")
		s.problem(w, http.StatusServiceUnavailable, "the metrics of the etcd member are being read by another client: try again")
		return
	}
	text, err := s.cfg.MemberMetrics(r.Context())
	if err != nil {
		s.problem(w, http.StatusServiceUnavailable, oneLine(err.Error()))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(text) // the client has closed the connection
}
