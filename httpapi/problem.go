package httpapi

import (
	"net/http"

	"github.com/lockstep-dev/lockstep/report"
)

func (s *Server) problem(w http.ResponseWriter, code int, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-cache, private")
	s.reply(w, code, string(marshal(report.Problem{Type: "about:blank", Title: http.StatusText(code), Status: code, Detail: detail}))+"\n")
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.problem(w, http.StatusNotFound, clip(r.URL.Path, 200)+" does not exist; /openapi.yaml describes all paths")
}

// methodNotAllowed is for all paths: the API is read-only, except for agents that reboot the
// machine.
func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == preRebootPath || r.URL.Path == steadyStatePath {
		w.Header().Set("Allow", http.MethodPost)
		s.lockProblem(w, http.StatusMethodNotAllowed, "method_not_allowed", "only POST is allowed")
		return
	}
	w.Header().Set("Allow", "GET, HEAD")
	s.problem(w, http.StatusMethodNotAllowed, "this API is read-only: GET and HEAD")
}
