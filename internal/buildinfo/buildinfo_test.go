package buildinfo

import (
	"runtime/debug"
	"testing"
)

func TestMerge(t *testing.T) {
	recorded := &debug.BuildInfo{
		Main: debug.Module{Path: module, Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
		},
	}
	clean := &debug.BuildInfo{Main: debug.Module{Path: module}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}}
	embedded := func(dep debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{
			Main:     debug.Module{Path: "example.com/agent", Version: "v9.0.0"},
			Deps:     []*debug.Module{{Path: "example.com/other", Version: "v8.0.0"}, &dep},
			Settings: recorded.Settings,
		}
	}
	tests := []struct {
		name    string
		stamped Info
		build   *debug.BuildInfo
		want    Info
	}{
		{"nothing is known", Info{}, nil, Info{Version: "(devel)"}},
		{"what the Go tool recorded is used", Info{}, recorded, Info{"v1.2.3", "abc-dirty", "2026-01-02T03:04:05Z"}},
		{"a clean tree is not called dirty", Info{}, clean, Info{Version: "(devel)", Commit: "abc"}},
		{"inside another program, its version is not ours", Info{}, embedded(debug.Module{Path: module, Version: "v1.2.3"}), Info{Version: "v1.2.3"}},
		{"a replaced module has no version", Info{}, embedded(debug.Module{Path: module, Version: "v1.2.3", Replace: &debug.Module{}}), Info{Version: "(devel)"}},
		{"a stamp wins", Info{"2.0.0", "def", "2027-01-01T00:00:00Z"}, recorded, Info{"2.0.0", "def", "2027-01-01T00:00:00Z"}},
		{"a stamp of one field leaves the others", Info{Version: "2.0.0"}, recorded, Info{"2.0.0", "abc-dirty", "2026-01-02T03:04:05Z"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := merge(test.stamped, test.build); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
