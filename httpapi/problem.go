package httpapi

import (
	"encoding/json"
	"net/http"
)

// Problem is an error in the form of RFC 9457, application/problem+json.
type Problem struct {
	Type   string `json:"type"` // always about:blank: the status code says all
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (s *Server) problem(w http.ResponseWriter, code int, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-cache, private")
	body, err := json.Marshal(Problem{Type: "about:blank", Title: http.StatusText(code), Status: code, Detail: detail})
	if err != nil {
		panic(err) // strings and a number always marshal
	}
	s.reply(w, code, string(body)+"\n")
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.problem(w, http.StatusNotFound, clip(r.URL.Path, 200)+" does not exist; /openapi.yaml describes all paths")
}

// methodNotAllowed is for all paths: the API is read-only, except for agents that reboot the
// machine.
func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == preRebootPath || r.URL.Path == steadyStatePath {
		w.Header().Set("Allow", http.MethodPost)
		s.lockProblem(w, http.StatusMethodNotAllowed, LockProblem{lockNoPost, "only POST is allowed"})
		return
	}
	w.Header().Set("Allow", "GET, HEAD")
	s.problem(w, http.StatusMethodNotAllowed, "this API is read-only: GET and HEAD")
}
