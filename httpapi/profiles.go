package httpapi

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	profiles "runtime/pprof"

	"github.com/go-chi/chi/v5"
)

// profile is for /debug/pprof, with --profiling. A profile reveals the data that the program works on, and takes
// time to make: it is open to the same clients as the rest.
func (s *Server) profile(w http.ResponseWriter, r *http.Request) {
	if !s.cfg.Profiling {
		s.problem(w, http.StatusNotFound, "this sidecar was started without --profiling")
		return
	}
	switch name := chi.URLParam(r, "profile"); name {
	case "cmdline":
		s.problem(w, http.StatusNotFound, "/flagz has the flags, without secrets")
	case "profile":
		if query := r.URL.Query(); query.Get("seconds") == "" { // the default of 30 is more than a response may take
			query.Set("seconds", "20")
			r.URL.RawQuery = query.Encode()
		}
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	default:
		if profiles.Lookup(name) == nil {
			s.problem(w, http.StatusNotFound, fmt.Sprintf("there is no profile %q: see go doc runtime/pprof", clip(name, maxHost)))
			return
		}
		pprof.Handler(name).ServeHTTP(w, r)
	}
}
