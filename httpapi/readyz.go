package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/lockstep-dev/lockstep/internal/allowance"
)

// healthText sets the Content-Type that Kubernetes components send with the response of a
// health check (docs/upstream.md#probes).
func healthText(w http.ResponseWriter) {
	w.Header()["Content-Type"] = plainText
}

// okBody is the body of a health check that passes, without query. net/http adds Content-Type and Content-Length.
var okBody = []byte("ok")

// quick answers /readyz for clients on this machine before the router, while it is only ok: load balancers and
// kubelets ask all the time. A request without a header field, as HAProxy sends it, gets a response without the
// headers for browsers and caches: both send fields, and a sixth of the time of such a response is spent on headers.
func (s *Server) quick(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != readyzPath || r.URL.RawQuery != "" || allowance.OfRequest(r) != nil || !s.passes() {
			next.ServeHTTP(w, r)
			return
		}
		start := time.Now()
		if len(r.Header) > 0 {
			h := w.Header()
			h["X-Content-Type-Options"] = noSniff
			h["Cache-Control"] = noCache
		}
		_, _ = w.Write(okBody) // the client closed the connection
		s.answered(r, readyzPath, http.StatusOK, time.Since(start))
	})
}

const readyzPath = "/readyz"

// plainCheck remembers whether all checks of a snapshot pass, without a remark.
type plainCheck struct {
	changed <-chan struct{} // closed when there is a newer snapshot
	plain   bool
}

// passes reports whether /readyz without query answers ok and nothing more.
func (s *Server) passes() bool {
	if p := s.plainCheck.Load(); p != nil {
		select {
		case <-p.changed:
		default:
			return p.plain
		}
	}
	snap, changed := s.cfg.Snapshot.Load()
	all := checks(snap)
	failed := slices.ContainsFunc(all, func(c check) bool { return !c.OK })
	p := &plainCheck{changed: changed, plain: !failed && overriddenOK(all) == string(okBody)}
	s.plainCheck.Store(p)
	return p.plain
}

// livez is for /livez and /healthz: the process is alive, and its loops make progress.
func (s *Server) livez(w http.ResponseWriter, r *http.Request) {
	healthText(w)
	name := strings.TrimPrefix(r.URL.Path, "/")
	if s.cfg.Stuck != nil {
		if stuck := s.cfg.Stuck(); len(stuck) > 0 {
			body := fmt.Sprintf("[+]ping ok\n[-]%s\n%s check failed\n", strings.Join(stuck, "\n[-]"), name)
			s.reply(w, http.StatusServiceUnavailable, body)
			return
		}
	}
	if !asked(r.URL.Query(), "verbose") {
		s.reply(w, http.StatusOK, "ok")
		return
	}
	s.reply(w, http.StatusOK, fmt.Sprintf("[+]ping ok\n%s check passed\n", name))
}

// readyz is the gate (docs/protocol-nodes.md#gate).
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery == "" && s.passes() {
		healthText(w)
		_, _ = w.Write(okBody) // the client closed the connection
		return
	}
	all, query := s.checksFor(r), r.URL.Query()
	body, ok := renderChecks(all, query["exclude"])
	healthText(w)
	switch {
	case !ok:
		s.reply(w, http.StatusServiceUnavailable, body)
	case asked(query, "verbose"):
		s.reply(w, http.StatusOK, body)
	default:
		s.reply(w, http.StatusOK, overriddenOK(all))
	}
}

// checksFor returns the checks with the texts that the client of a request may read.
func (s *Server) checksFor(r *http.Request) []check {
	all := checks(s.cfg.Snapshot.Get())
	if s.mayReadReasons(r) {
		return all
	}
	return withheld(all)
}

// overriddenOK is the short body of a check that passes. It warns while it passes by an
// override alone.
func overriddenOK(all []check) string {
	for _, c := range all {
		if c.Name == checkCompatible && c.Note != "" {
			return "ok, but " + c.Note + "\n"
		}
	}
	return "ok"
}

// readyzCheck is for one check.
func (s *Server) readyzCheck(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "check")
	all := s.checksFor(r)
	i := slices.IndexFunc(all, func(c check) bool { return c.Name == name })
	if i < 0 {
		s.notFound(w, r)
		return
	}
	healthText(w)
	if !all[i].OK {
		s.reply(w, http.StatusServiceUnavailable, "service unavailable: "+all[i].Message+"\n")
		return
	}
	s.reply(w, http.StatusOK, "ok")
}

// renderChecks writes the checks in the form of Kubernetes components, and
// reports whether all that were not excluded pass.
func renderChecks(all []check, exclude []string) (body string, ok bool) {
	var b strings.Builder
	ok = true
	for _, c := range all {
		switch {
		case !c.required() && slices.Contains(exclude, c.Name):
			fmt.Fprintf(&b, "[+]%s excluded: ok\n", c.Name)
		case c.OK && c.Note != "":
			fmt.Fprintf(&b, "[+]%s ok, but %s\n", c.Name, c.Note)
		case c.OK:
			fmt.Fprintf(&b, "[+]%s ok\n", c.Name)
		default:
			ok = false
			fmt.Fprintf(&b, "[-]%s failed: %s\n", c.Name, c.Message)
		}
	}
	writeExcludeWarnings(&b, all, exclude)
	if ok {
		b.WriteString("readyz check passed\n")
	} else {
		b.WriteString("readyz check failed\n")
	}
	return b.String(), ok
}

// writeExcludeWarnings warns of exclusions that have no effect.
func writeExcludeWarnings(b *strings.Builder, all []check, exclude []string) {
	var required, unknown []string
	for _, name := range exclude {
		i := slices.IndexFunc(all, func(c check) bool { return c.Name == name })
		switch {
		case i < 0:
			unknown = append(unknown, name)
		case all[i].required():
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		fmt.Fprintf(b, "warn: some health checks cannot be excluded: the gate needs %s\n", quoted(required))
	}
	if len(unknown) > 0 {
		fmt.Fprintf(b, "warn: some health checks cannot be excluded: no matches for %s\n", quoted(unknown))
	}
}

// quoted lists names, sorted, each once. It limits number and length, since any
// client can send them.
func quoted(names []string) string {
	const most, longest = 8, 64
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, fmt.Sprintf("%q", clip(name, longest)))
	}
	return strings.Join(out, ", ") + more
}

// asked reports whether a query has the flag: `?name`, `?name=1`, and not
// `?name=0` or `?name=false`.
func asked(query url.Values, name string) bool {
	v, found := query[name]
	return found && !slices.Contains([]string{"0", "false"}, strings.ToLower(v[0]))
}
