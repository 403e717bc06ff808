package table

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/report"
)

// The columns with versions are in a table if it is wide, or if nodes differ. What is unknown differs from nothing.
func TestRecords_versions(t *testing.T) {
	nodes := []report.Record{{Runs: report.Runs{ApiserverVersion: "v1", ServicesDigest: "x"}}, {}, {Runs: report.Runs{ApiserverVersion: "v1", ServicesDigest: "y"}}}
	const others = 7
	for _, tc := range []struct {
		nodes []report.Record
		wide  bool
		want  []string
	}{
		{nodes, false, []string{"SERVICES"}},
		{nodes, true, []string{"APISERVER", "SERVICES"}},
		{nodes[:2], false, []string{}},
	} {
		rows := Records(tc.nodes, tc.wide)
		if got := rows[0][others:]; !slices.Equal(got, tc.want) {
			t.Errorf("got %v, want %v", got, tc.want)
		}
		if got := rows[2][others:]; len(got) != len(tc.want) || slices.ContainsFunc(got, func(cell string) bool { return cell != "-" }) {
			t.Errorf("got %v for what is unknown", got)
		}
	}
}
