// Package buildinfo owns the facts about how Lockstep was built, as a program of
// its own or inside another one. The linker stamps them (Dockerfile and Makefile);
// otherwise they are what the Go tool recorded.
package buildinfo

import (
	"cmp"
	"runtime/debug"
)

// Set by the linker: -X github.com/lockstep-dev/lockstep/internal/buildinfo.version=1.2.3
// and so on. Nothing else writes them.
var (
	version string
	commit  string
	date    string
)

// Info says which program this is.
type Info struct {
	Version string // SemVer, or "(devel)"
	Commit  string // with "-dirty" where the tree had changes; empty: unknown
	Date    string // RFC 3339, of the build or the commit; empty: unknown
}

// Get returns what is known of the build.
func Get() Info {
	build, _ := debug.ReadBuildInfo() // nil in a program that was built without modules
	return merge(Info{Version: version, Commit: commit, Date: date}, build)
}

// UserAgent is the name with which the sidecar sends requests to the kube-apiserver.
func UserAgent() string { return "lockstep/" + Get().Version }

// merge fills what was not stamped from what the Go tool recorded.
func merge(stamped Info, build *debug.BuildInfo) Info {
	recorded := Info{Version: "(devel)"}
	if build != nil {
		recorded = fromGo(build)
	}
	return Info{
		Version: cmp.Or(stamped.Version, recorded.Version),
		Commit:  cmp.Or(stamped.Commit, recorded.Commit),
		Date:    cmp.Or(stamped.Date, recorded.Date),
	}
}

// module is the one that this package is a part of.
const module = "github.com/lockstep-dev/lockstep"

func fromGo(build *debug.BuildInfo) Info {
	if build.Main.Path != module {
		return fromDependency(build)
	}
	out := Info{Version: cmp.Or(build.Main.Version, "(devel)")}
	dirty := false
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			out.Commit = s.Value
		case "vcs.time":
			out.Date = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty && out.Commit != "" {
		out.Commit += "-dirty"
	}
	return out
}

// fromDependency is for a program that embeds a sidecar: its own version and
// commit are not those of Lockstep.
func fromDependency(build *debug.BuildInfo) Info {
	for _, dep := range build.Deps {
		if dep.Path == module && dep.Replace == nil {
			return Info{Version: cmp.Or(dep.Version, "(devel)")}
		}
	}
	return Info{Version: "(devel)"}
}
