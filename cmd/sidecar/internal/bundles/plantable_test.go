package bundles

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/rollout"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
)

func TestConclusion_heldRemovals(t *testing.T) {
	const brake = "that is more than half of the 14 objects; if it is meant: --allow-mass-prune"
	dropped := func(n int) *objectsReport {
		return &objectsReport{Counts: map[string]int{string(report.ActionHold): n}, PruneHeld: brake}
	}
	for name, tt := range map[string]struct {
		objects *objectsReport
		want    string
	}{
		"objects were not compared": {nil, "Nothing to do: all nodes run this bundle."},
		"none is held":              {&objectsReport{}, "Nothing to do: all nodes run this bundle."},
		"one is held":               {dropped(1), "All nodes run this bundle, but 1 object is not removed: " + brake + "."},
		"many are held":             {dropped(11), "All nodes run this bundle, but 11 objects are not removed: " + brake + "."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := conclusion(PlanReport{Clean: true, Objects: tt.objects}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A plan fits 80 columns, says once why objects are held, and does not promise DONE while
// an object fails.
func TestPlanTable(t *testing.T) {
	gates := []gateReport{{ID: "cp-1", Ready: true}, {ID: "cp-2", Ready: true}, {ID: "cp-3", Ready: true}}
	upgraded := func(node, leader, state, version string, blockers ...waitReport) stepReport {
		while := momentReport{Nodes: gates}
		return stepReport{Kind: "upgrade", Node: node, From: "1.1.0", To: "1.2.0", While: &while, Changed: version == "1.2.0", Events: []string{"the gate of " + node + " closes, and opens when it runs the new release"},
			After: momentReport{State: state, Version: version, MinimumCompatibleRelease: "1.0.0", Leader: leader, Nodes: gates, Blockers: blockers}}
	}
	reason := strings.Repeat("the bundle drops 11 of 11 objects; ", 3) + "add --allow-mass-prune"
	r := PlanReport{
		Bundle: bundleReport{Name: "acme", Version: "1.2.0", MinReconcilerRelease: "1.0.0", MinAPIServerRelease: "1.1.0"},
		Now:    momentReport{State: "DONE", Version: "1.1.0", MinimumCompatibleRelease: "1.0.0", Leader: "cp-2", Nodes: gates},
		Steps: []stepReport{
			upgraded("cp-1", "cp-1", "WORKING", "1.1.0", waitReport{ID: "cp-2", Message: "runs 1.1.0"}, waitReport{ID: "cp-3", Message: "runs 1.1.0"}),
			upgraded("cp-2", "cp-1", "WORKING", "1.1.0", waitReport{ID: "cp-3", Message: "runs 1.1.0"}),
			upgraded("cp-3", "cp-1", "DONE", "1.2.0"),
		},
		Objects: &objectsReport{
			Counts:    map[string]int{string(report.ActionHold): 2, string(report.ActionFail): 1},
			Differing: []ObjectReport{{"held", `ConfigMap "platform/a"`, reason}, {"held", `ConfigMap "platform/b"`, reason}, {"fails", `Widget "w"`, "no such kind"}}, failing: 1,
		},
		Obstacles: []obstacleReport{{Kind: obstacleObjects, Message: "the API server rejects 1 object now"}},
	}
	var out bytes.Buffer
	planTable{terminal.Printer{W: &out, Screen: terminal.Screen{Width: 80, Commands: rootWithTurn()}}}.write(r)
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	out.Reset()
	planTable{terminal.Printer{W: &out}}.write(r)
	var got []string
	for line := range strings.Lines(out.String()) {
		if words := strings.Fields(line); len(words) > 0 && (words[0] == "held" || words[0] == "3" && strings.Contains(line, "->")) {
			got = append(got, strings.Join(words, " "))
		}
	}
	want := []string{
		"3 cp-3 1.1.0 -> 1.2.0 3 of 3 3 of 3 cp-1 not DONE: see OBSTACLES -",
		`held ConfigMap "platform/a" ` + reason, `held ConfigMap "platform/b" as above`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s\n%s", diff, &out)
	}
}

// The plan of a rollback names the command that begins it, in a line of its own: without that, the same steps are an outage.
func TestRollbackRows(t *testing.T) {
	r := PlanReport{Clean: true, Steps: []stepReport{{Kind: "upgrade"}}, begin: "sidecar rollback begin --to 1.0.0 --etcd-servers=E", turn: "sidecar turn --etcd-servers=E -- COMMAND"}
	first := []string{"1", "type: " + r.begin}
	each := "on one node at a time: stop it, start it with this bundle, and wait until it is ready"
	atOnce, turns := []string{"", "or on all nodes at once, where COMMAND stops and starts one:"}, []string{"", r.turn}
	if diff := cmp.Diff([][]string{first, {"2", each}, atOnce, turns}, rollbackRows(r)); diff != "" || conclusion(r) != "The rollback is clean. What to do:" {
		t.Errorf("got %q, (-want +got)\n%s", conclusion(r), diff)
	}
	r.Now.Nodes = []gateReport{{}}
	if diff := cmp.Diff([][]string{first, {"2", "stop the only node, and start it with this bundle"}}, rollbackRows(r)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	r.Now.Nodes, r.begin = nil, ""
	if got, want := conclusion(r), "The rollout is clean. "; !strings.HasPrefix(got, want) || rollbackRows(r) != nil {
		t.Errorf("got %q and %v, want %q", got, rollbackRows(r), want)
	}
	r.Steps = []stepReport{{Kind: "upgrade", Node: "cp-1", From: "1.2.0", To: "1.1.0"}}
	if diff := cmp.Diff([][]string{{"1", each}, atOnce, turns}, rollbackRows(r)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if r.Clean = false; rollbackRows(r) != nil {
		t.Errorf("got %v for a plan that is not clean", rollbackRows(r))
	}
}

// A step without events leaves one blank line before the next part, not two.
func TestPlanTable_blankLines(t *testing.T) {
	for _, events := range [][]string{nil, {"cp-1 leads"}} {
		var out bytes.Buffer
		planTable{terminal.Printer{W: &out}}.write(PlanReport{Clean: true, Steps: []stepReport{{Kind: "upgrade", Node: "cp-1", Events: events}}})
		if strings.Contains(out.String(), "\n\n\n") {
			t.Errorf("got two blank lines:\n%s", &out)
		}
	}
}

// rootWithTurn has the command that a plan prints.
func rootWithTurn() *cobra.Command {
	root := &cobra.Command{Use: "sidecar"}
	root.AddCommand(&cobra.Command{Use: "turn [flags] -- COMMAND [ARG...]"})
	return root
}

// diff and plan say so (validate: testdata/script/bundle.txtar) before a node is started with the bundle.
func TestReplacesBundle(t *testing.T) {
	var out strings.Builder
	if err := (diffReport{}).print(&out, report.Preview{Bundle: "acme", Replaces: "base"}); err != nil ||
		!strings.HasPrefix(out.String(), "# replaces the bundle base, which no leader does before you type: sidecar bundle replace --from base --to acme\n") {
		t.Errorf("diff: got %v, %q", err, out.String())
	}
	in := rollout.Input{Status: protocol.StatusView{Kind: protocol.StatusPresent, Status: protocol.Status{State: protocol.Done, Bundle: "base"}},
		Fleet: protocol.Fleet{Records: []*protocol.Record{{ID: "a", Problem: "corrupt"}}}}
	for name, want := range map[string]bool{"acme": true, "base": false} {
		b := &bundle.Bundle{Name: name, Version: protocol.Version{Release: protocol.Release{Major: 1}}}
		in.Bundle = b.Local()
		got := newPlanReport(b, in, nil, "")
		// It comes before all other obstacles: the others may follow from a wrong --bundle.
		if len(got.Obstacles) == 0 {
			t.Fatalf("plan: %s: no obstacle, though a record is corrupt", name)
		}
		o := got.Obstacles[0]
		if found := strings.HasSuffix(o.Message, "sidecar bundle replace --from base --to "+name); found != want || found != (o.Kind == string(warn.OtherBundle)) {
			t.Errorf("plan: %s: got %+v", name, got.Obstacles)
		}
	}
}
