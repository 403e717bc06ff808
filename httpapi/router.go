package httpapi

import (
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// router contains every path of the API. openapi.yaml describes the same ones; a test holds the two together.
func (s *Server) router() chi.Router {
	r := chi.NewRouter()
	r.Use(s.observe, s.recover, s.withinAllowance, securityHeaders, middleware.GetHead)
	r.NotFound(s.notFound)
	r.MethodNotAllowed(s.methodNotAllowed)

	// The health endpoints are open to all clients: kubelets and load balancers show no client certificate.
	r.Get("/livez", s.livez)
	r.Get("/healthz", s.livez)
	r.Get(readyzPath, s.readyz)
	r.Get("/readyz/{check}", s.readyzCheck)

	if s.cfg.FleetLock != nil { // these answer all problems in the form of the protocol
		r.Post(preRebootPath, s.fleetLock(s.cfg.FleetLock.PreReboot))
		r.Post(steadyStatePath, s.fleetLock(s.cfg.FleetLock.SteadyState))
	}

	r.Group(func(r chi.Router) {
		r.Use(s.requireAccess)
		r.Get("/", s.page)
		r.Get("/leader", s.leader)
		r.Get("/status", s.status)
		if s.cfg.History != nil {
			r.Get("/history", s.history)
		}
		if s.cfg.Recording != nil {
			r.Get("/debug/recording", s.recording)
		}
		r.Get("/version", s.version)
		r.Get("/statusz", s.statusz)
		r.Get("/flagz", s.flagz)
		if s.cfg.OpenAPI != "" {
			r.Get("/openapi.yaml", s.openapi)
		}
		if s.cfg.Metrics != nil {
			r.Method(http.MethodGet, "/metrics", s.cfg.Metrics)
		}
		r.Get("/metrics/etcd", s.memberMetrics)
		r.Get("/debug/pprof/{profile}", s.profile)
	})
	return r
}

// endpoints are the paths of the router as labels of the metrics. Any other path is "other".
func endpoints() []string {
	return []string{
		"/livez", "/healthz", "/readyz", "/readyz/{check}", "/", "/leader", "/status", "/history", "/debug/recording", "/version",
		"/openapi.yaml", "/statusz", "/flagz", "/metrics", "/metrics/etcd", "/debug/pprof/{profile}",
		"/v1/pre-reboot", "/v1/steady-state", "other",
	}
}

// replyJSON writes a value for programs, and for people with curl.
func (s *Server) replyJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	s.reply(w, code, indented(v))
}

// reply writes a response of known length. The caller has set its Content-Type.
func (s *Server) reply(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body)) // the client closed the connection
}
