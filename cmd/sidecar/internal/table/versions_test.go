package table

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/report"
)

func TestVersionColumns(t *testing.T) {
	nodes := []report.Record{{Runs: report.Runs{ApiserverVersion: "v1", ServicesDigest: "x"}}, {}, {Runs: report.Runs{ApiserverVersion: "v1", ServicesDigest: "y"}}}
	for _, tc := range []struct {
		wide bool
		want []string
	}{
		{false, []string{"SERVICES"}},
		{true, []string{"APISERVER", "SERVICES"}},
	} {
		columns := VersionColumnsOf(nodes, tc.wide)
		if got := columns.Head(); !slices.Equal(got, tc.want) {
			t.Errorf("got %v, want %v", got, tc.want)
		}
		if got := columns.Cells(nodes[1]); len(got) != len(tc.want) || got[0] != "-" {
			t.Errorf("got %v for what is unknown", got)
		}
	}
	if got := VersionColumnsOf(nodes[:2], false).Head(); got != nil {
		t.Errorf("got %v where no node differs", got)
	}
}
