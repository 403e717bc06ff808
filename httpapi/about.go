package httpapi

import (
	"fmt"
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
	s.replyJSON(w, http.StatusOK, newVersionReport(s.cfg.Build))
}

func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	s.reply(w, http.StatusOK, s.cfg.OpenAPI)
}

// statusz is the page of KEP-4827.
func (s *Server) statusz(w http.ResponseWriter, r *http.Request) {
	paths, up := endpoints()[:len(endpoints())-1], time.Since(s.started)
	text := fmt.Sprintf("Started: %s\nUp: %s\nGo version: %s\nBinary version: %s\nPaths: %s\n",
		s.started.UTC().Format(time.RFC1123), up.Round(time.Second), runtime.Version(), s.cfg.Build.Version, strings.Join(paths, " "))
	s.zpage(w, r, "Statusz", text, statuszReport{
		zpageHead: newZpageHead("Statusz"),
		StartTime: s.started.UTC().Truncate(time.Second), UptimeSeconds: int64(up.Seconds()),
		GoVersion: runtime.Version(), BinaryVersion: s.cfg.Build.Version, Paths: paths,
	})
}

// flagz is the page of KEP-4828.
func (s *Server) flagz(w http.ResponseWriter, r *http.Request) {
	flags, text := make(map[string]string, len(s.cfg.Flags)), ""
	for _, f := range s.cfg.Flags {
		flags[f.Name] = f.Value
		text += f.Name + "=" + oneLine(f.Value) + "\n"
	}
	s.zpage(w, r, "Flagz", text, flagzReport{newZpageHead("Flagz"), flags})
}
