package bundles

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/report"
)

func TestPrintDiff(t *testing.T) {
	form := func(v string) map[string]any { return map[string]any{"kind": "X", "value": v} }
	var out bytes.Buffer
	preview := report.Preview{PruneHeld: "the brake\x1b[2J is on", Objects: []report.Previewed{
		{Kind: "X", Name: "same", Action: report.ActionNone},
		{Kind: "X", Name: "new", Action: report.ActionCreate, Message: "not checked", Wanted: form("1")},
		{Kind: "X", Name: "again", Action: report.ActionRecreate, Live: form("1"), Wanted: form("2")},
		{Kind: "X", Name: "held", Action: report.ActionHold, Live: form("1")},
	}}
	differing, err := newDiffReport(preview)
	if err := errors.Join(err, differing.print(&out, preview)); err != nil {
		t.Fatal(err)
	}
	const want = `# not checked
diff -u live/X/new bundle/X/new
--- live/X/new
+++ bundle/X/new
@@ -0,0 +1,2 @@
+kind: X
+value: "1"
# to be deleted and created again: an immutable field changes
diff -u live/X/again bundle/X/again
--- live/X/again
+++ bundle/X/again
@@ -1,2 +1,2 @@
 kind: X
-value: "1"
+value: "2"
# 1 object not removed, though missing from the bundle: the brake [2J is on
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := differing.outcome(); !errors.Is(err, console.ExitError{Code: console.ExitDiffers}) {
		t.Errorf("got %v", err)
	}
}
