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

// zpagesHead opens /statusz and /flagz in the form of Kubernetes components.
const zpagesHead = "\nlockstep %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n\n"

// statusz is the page of KEP-4827.
func (s *Server) statusz(w http.ResponseWriter, r *http.Request) {
	paths := endpoints()[:len(endpoints())-1]
	switch form := s.zpageForm(w, r, "Statusz"); form {
	case "":
		return
	case formText:
	default:
		s.replyZpage(w, form, statuszReport{
			Kind: "Statusz", APIVersion: zpagesGroup + "/" + zpagesVersion, Metadata: zpageMetadata{"lockstep"},
			StartTime: s.started.UTC().Truncate(time.Second), UptimeSeconds: int64(time.Since(s.started).Seconds()),
			GoVersion: runtime.Version(), BinaryVersion: s.cfg.Build.Version, Paths: paths,
		})
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, zpagesHead, "statusz")
	fmt.Fprintf(&b, "Started: %s\n", s.started.UTC().Format(time.RFC1123))
	fmt.Fprintf(&b, "Up: %s\n", time.Since(s.started).Round(time.Second))
	fmt.Fprintf(&b, "Go version: %s\n", runtime.Version())
	fmt.Fprintf(&b, "Binary version: %s\n", s.cfg.Build.Version)
	fmt.Fprintf(&b, "Paths: %s\n", strings.Join(paths, " "))
	healthText(w)
	s.reply(w, http.StatusOK, b.String())
}

// flagz is the page of KEP-4828.
func (s *Server) flagz(w http.ResponseWriter, r *http.Request) {
	switch form := s.zpageForm(w, r, "Flagz"); form {
	case "":
		return
	case formText:
	default:
		flags := make(map[string]string, len(s.cfg.Flags))
		for _, f := range s.cfg.Flags {
			flags[f.Name] = f.Value
		}
		s.replyZpage(w, form, flagzReport{Kind: "Flagz", APIVersion: zpagesGroup + "/" + zpagesVersion, Metadata: zpageMetadata{"lockstep"}, Flags: flags})
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
