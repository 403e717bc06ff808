package show

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// A problem keeps its time for as long as it is the same.
func TestKeepTimes(t *testing.T) {
	before := []protocol.Warning{{Reason: warn.NoGate, Subject: "a", Message: "m", Since: noon}}
	now := []protocol.Warning{
		{Reason: warn.NoGate, Subject: "b", Message: "m"}, {Reason: warn.NoGate, Subject: "a", Message: "m"}, {Message: "own", Since: noon.Add(-time.Hour)},
		{Reason: warn.NoGate, Subject: "a", Message: "m" + slowBefore},
	}
	keepTimes(now, before, noon.Add(time.Minute))
	for i, want := range []time.Time{noon.Add(time.Minute), noon, noon.Add(-time.Hour), noon} {
		if !now[i].Since.Equal(want) {
			t.Errorf("%s: got %s, want %s", now[i].Subject, now[i].Since, want)
		}
	}
}

func TestWarningsOfALeader(t *testing.T) {
	if got := heldMessage(protocol.Leading, report.Reconcile{PruneHeld: "why", Objects: report.Objects{Owed: 1}}); got != "1 object that the bundle dropped is not removed: why" {
		t.Errorf("got %q", got)
	}
	if got := heldMessage(protocol.Campaigning, report.Reconcile{PruneHeld: "why", Objects: report.Objects{Owed: 1}}); got != "" {
		t.Errorf("a node that does not lead: got %q", got)
	}
	f := protocol.Fleet{Revision: 1, Records: []*protocol.Record{
		{ID: "a", Alive: true, Node: protocol.Node{Roles: protocol.Roles{Controller: true}}},
		{ID: "b", Problem: "garbage"},
	}}
	if got := fleetWarnings(upgrade.Facts{Fleet: f}, "a"); len(got) != 2 || got[0].Reason != protocol.RecordCorrupt || !strings.Contains(got[0].Message, "sidecar node remove b") {
		t.Errorf("seen by a: got %+v", got)
	}
	if got := fleetWarnings(upgrade.Facts{Fleet: f}, "c"); len(got) != 3 || got[2].Reason != warn.NoGate || got[2].Subject != "a" {
		t.Errorf("seen by c: got %+v", got)
	}
}

// Bundles are compared with others of their name. A leader applies one of another name only after a replacement.
func TestFleetWarnings_bundlesDiffer(t *testing.T) {
	runs := func(id protocol.NodeID, name, digest string) *protocol.Record {
		return &protocol.Record{ID: id, Alive: true, Node: protocol.Node{Roles: protocol.Roles{Controller: true}, Bundle: name, Digest: digest}}
	}
	two := []*protocol.Record{runs("a", "acme", "x"), runs("b", "base", "y")}
	three := append(slices.Clone(two), runs("c", "acme", "z"))
	for name, tc := range map[string]struct {
		records []*protocol.Record
		objects string // the name of their bundle
		want    string // in the one warning
	}{
		"one of each name":               {two, "acme", ""},
		"an older program wrote no name": {two, "", "different bundles: x on a; y on b; each leader applies its own bundle: give"},
		"two of the objects' name":       {three, "acme", "different bundles: x on a; z on c; each leader applies its own bundle: give"},
		"two of another name": {three, "base",
			"different bundles of the name acme: x on a; z on c; after sidecar bundle replace, each leader applies its own bundle: give"},
	} {
		t.Run(name, func(t *testing.T) {
			view := protocol.StatusView{Kind: protocol.StatusPresent, Status: protocol.Status{Bundle: tc.objects}}
			var got []string
			for _, w := range fleetWarnings(upgrade.Facts{Status: view, Fleet: protocol.Fleet{Revision: 1, Records: tc.records}}, "a") {
				if w.Reason == warn.BundlesDiffer {
					got = append(got, w.Message)
				}
			}
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// A leader that waits keeps the age of its warnings, also while the number of nodes or a node's state changes.
func TestWaits(t *testing.T) {
	step := protocol.Step{Rule: protocol.WaitForNodes, Message: "2 registered nodes", Blockers: []protocol.Blocker{
		{Node: "b", Reason: protocol.ReleaseTooOld, Message: "upgrade it"}, {Node: "c", Reason: protocol.ReleaseTooOld, Message: "upgrade it"},
	}}
	before := waits(step, nil)
	keepTimes(before, nil, noon)
	step.Message, step.Blockers[0].Message = "3 registered nodes", "upgrade it (it is not alive)"
	step.Blockers = append(step.Blockers, protocol.Blocker{Node: "d", Reason: protocol.ReleaseTooOld, Message: "upgrade it"})
	now := waits(step, before)
	keepTimes(now, before, noon.Add(time.Minute))
	for i, want := range []time.Time{noon, noon, noon, noon.Add(time.Minute)} {
		if !now[i].Since.Equal(want) {
			t.Errorf("%q: got %s, want %s", now[i].Subject, now[i].Since, want)
		}
	}
	step.Rule = protocol.HoldForNewer
	if got := waits(step, now)[0]; !got.Since.IsZero() {
		t.Errorf("another rule: got %s", got.Since)
	}
}
