package httpapi

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
)

// securityHeaders are part of every response: browsers do not guess the type, and
// caches ask again each time.
func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Content-Type-Options"] = noSniff
		h["Cache-Control"] = noCache
		next.ServeHTTP(w, r)
	})
}

// Values of headers, shared by all responses, so that a health check allocates none. Nothing may write into them:
// http.Header.Set and Add do not.
var (
	noSniff   = []string{"nosniff"}
	noCache   = []string{"no-cache, private"}
	plainText = []string{"text/plain; charset=utf-8"}
)

// observed is a ResponseWriter that knows the status code of its response.
type observed struct {
	http.ResponseWriter
	code int // 0: the response has not begun
}

// writers keeps the writers of ended requests.
var writers = sync.Pool{New: func() any { return &observed{} }}

func (o *observed) WriteHeader(code int) {
	if o.code == 0 {
		o.code = code
	}
	o.ResponseWriter.WriteHeader(code)
}

func (o *observed) Write(text []byte) (int, error) {
	if o.code == 0 {
		o.code = http.StatusOK
	}
	return o.ResponseWriter.Write(text)
}

// Unwrap is for http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// observe counts and times the requests.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ww, _ := writers.Get().(*observed)
		*ww = observed{ResponseWriter: w}
		next.ServeHTTP(ww, r)
		code := cmp.Or(ww.code, http.StatusOK) // net/http sends that when a handler writes nothing
		*ww = observed{}
		writers.Put(ww) // not after a panic: its handler may have left it to others
		endpoint := chi.RouteContext(r.Context()).RoutePattern()
		took := time.Since(start)
		if strings.HasPrefix(w.Header().Get("Content-Type"), eventStream) {
			took = 0
		}
		s.answered(r, endpoint, code, took)
	})
}

// answered counts a response, and times it unless took is 0.
func (s *Server) answered(r *http.Request, endpoint string, code int, took time.Duration) {
	s.metrics.answered(endpoint, code, took)
	if s.log.Enabled(r.Context(), slog.LevelDebug) { // the values are allocated
		s.log.Debug("answered", "method", r.Method, "endpoint", endpoint, "code", code, "duration", took)
	}
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
			s.metrics.panics.Inc()
			s.log.Error("panic in a request handler", "path", clip(r.URL.Path, 200), "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			if ww, ok := w.(*observed); ok && ww.code != 0 {
				panic(http.ErrAbortHandler)
			}
			s.problem(w, http.StatusInternalServerError, "this is a bug in the sidecar; its log has the details")
		}()
		next.ServeHTTP(w, r)
	})
}
