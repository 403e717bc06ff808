package bundles

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/report"
)

// TestDiffReport compares the output of bundle diff -o json with a file, which programs of others rely on.
func TestDiffReport(t *testing.T) {
	differing, err := newDiffReport(report.Preview{PruneHeld: "too many", Objects: []report.Previewed{
		{Kind: "ConfigMap", Namespace: "acme", Name: "same", Action: report.ActionNone},
		{
			Kind: "ConfigMap", Namespace: "acme", Name: "a", Action: report.ActionChange,
			Live: map[string]any{"data": map[string]any{"a": "1"}}, Wanted: map[string]any{"data": map[string]any{"a": "2"}},
		},
		{Group: "example.com", Kind: "Widget", Name: "w", Action: report.ActionFail, Message: "no such\nkind"},
		{Kind: "ConfigMap", Namespace: "acme", Name: "old", Action: report.ActionHold, Message: "too many"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (console.Program{Stdout: &out}).PrintJSON(differing); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../testdata/json/bundle-diff.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
