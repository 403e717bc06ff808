package httpapi

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// securityHeaders are part of every response: browsers do not guess the type, and
// caches ask again each time.
func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache, private")
		next.ServeHTTP(w, r)
	})
}

// observe counts and times the requests.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		next.ServeHTTP(ww, r)
		code := ww.Status()
		if code == 0 {
			code = http.StatusOK // net/http sends that when a handler writes nothing
		}
		endpoint := chi.RouteContext(r.Context()).RoutePattern()
		took := time.Since(start)
		s.metrics.answered(endpoint, code)
		if !strings.HasPrefix(ww.Header().Get("Content-Type"), eventStream) {
			s.metrics.timed(endpoint, took)
		}
		s.log.Debug("answered", "method", r.Method, "endpoint", endpoint, "code", code, "duration", took)
	})
}

// recover turns a panic into a 500. If the response has begun, it closes the
// connection instead: half a response must not look complete.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so as well
				panic(p)
			}
			s.metrics.panicked()
			s.log.Error("panic in a request handler", "path", clip(r.URL.Path, 200), "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			if begun(w) {
				panic(http.ErrAbortHandler)
			}
			s.problem(w, http.StatusInternalServerError, "this is a bug in the sidecar; its log has the details")
		}()
		next.ServeHTTP(w, r)
	})
}

func begun(w http.ResponseWriter) bool {
	ww, ok := w.(middleware.WrapResponseWriter)
	return ok && ww.Status() != 0
}
