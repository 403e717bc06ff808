package httpapi

import (
	"fmt"
	"mime"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/semver"
)

// versionReport is the wire form of /version, in the form of Kubernetes components.
type versionReport struct {
	Major        string `json:"major"` // empty if the version is not a release
	Minor        string `json:"minor"`
	GitVersion   string `json:"gitVersion"`
	GitCommit    string `json:"gitCommit"`
	GitTreeState string `json:"gitTreeState"` // clean, dirty, or empty: unknown
	BuildDate    string `json:"buildDate"`
	GoVersion    string `json:"goVersion"`
	Compiler     string `json:"compiler"`
	Platform     string `json:"platform"`
}

func newVersionReport(b Build) versionReport {
	out := versionReport{
		GitVersion: b.Version, BuildDate: b.Date,
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if v, err := semver.ParseVersion(b.Version); err == nil {
		out.Major, out.Minor = strconv.FormatInt(v.Release.Major, 10), strconv.FormatInt(v.Release.Minor, 10)
	}
	if commit, dirty := strings.CutSuffix(b.Commit, "-dirty"); commit != "" {
		out.GitCommit, out.GitTreeState = commit, "clean"
		if dirty {
			out.GitTreeState = "dirty"
		}
	}
	return out
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	s.reply(w, http.StatusOK, indented(newVersionReport(s.cfg.Build)))
}

func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	s.reply(w, http.StatusOK, s.cfg.OpenAPI)
}

// zpagesHead opens /statusz and /flagz in the form of Kubernetes components.
const zpagesHead = "\nlockstep %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n\n"

// statusz is the page of KEP-4827, text only: programs read /status.
func (s *Server) statusz(w http.ResponseWriter, r *http.Request) {
	if !s.acceptsText(w, r) {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, zpagesHead, "statusz")
	fmt.Fprintf(&b, "Started: %s\n", s.started.UTC().Format(time.RFC1123))
	fmt.Fprintf(&b, "Up: %s\n", time.Since(s.started).Round(time.Second))
	fmt.Fprintf(&b, "Go version: %s\n", runtime.Version())
	fmt.Fprintf(&b, "Binary version: %s\n", s.cfg.Build.Version)
	fmt.Fprintf(&b, "Paths: %s\n", strings.Join(endpoints()[:len(endpoints())-1], " "))
	healthText(w)
	s.reply(w, http.StatusOK, b.String())
}

// flagz is the page of KEP-4828, text only.
func (s *Server) flagz(w http.ResponseWriter, r *http.Request) {
	if !s.acceptsText(w, r) {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, zpagesHead, "flagz")
	for _, f := range s.cfg.Flags {
		fmt.Fprintf(&b, "%s=%s\n", f.Name, oneLine(f.Value))
	}
	healthText(w)
	s.reply(w, http.StatusOK, b.String())
}

// acceptsText reports whether the client accepts plain text. If not, it has sent 406.
func (s *Server) acceptsText(w http.ResponseWriter, r *http.Request) bool {
	accept := r.Header.Values("Accept")
	if len(accept) == 0 {
		return true
	}
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		switch kind, params, err := mime.ParseMediaType(part); {
		case err != nil || params["q"] == "0":
		case kind == "*/*" || kind == "text/*" || kind == "text/plain":
			return true
		}
	}
	s.problem(w, http.StatusNotAcceptable, "this page is available as text/plain only; programs should use /status")
	return false
}
