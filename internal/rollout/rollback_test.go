package rollout

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TestRollbackKeepsTwoGatesOpen simulates that three nodes of a release that raised
// minApiserverRelease go back.
func TestRollbackKeepsTwoGatesOpen(t *testing.T) {
	in := Input{
		Fleet: rollingFleet("1.1.0", "1.1.0", "1.1.0"), Status: doneAt("1.1.0", "1.1.0"), Bundle: bundleOf("1.0.0", "1.0.0", "1.0.0"),
	}
	fewest := func(in Input) int {
		out := Simulate(in)
		if len(out.Moves) != 3 {
			t.Fatalf("got %d moves", len(out.Moves))
		}
		fewest := 3
		for _, m := range out.Moves {
			for _, moment := range []Moment{m.While, m.After} {
				open := 0
				for _, g := range moment.Gates {
					if g.Verdict.Ready {
						open++
					}
				}
				fewest = min(fewest, open)
			}
		}
		return fewest
	}
	if got := fewest(in); got != 0 {
		t.Errorf("without a rollback: %d gates are open at the worst moment, want none: then the rollback is not needed", got)
	}
	in.Rollback = true
	if got := fewest(in); got != 2 {
		t.Errorf("in a rollback: %d gates are open at the worst moment, want 2", got)
	}
}

// While a rollback to another release is under way, the plan must not promise that nodes of the bundle's release lead.
func TestRollbackToAnotherRelease(t *testing.T) {
	in := Input{
		Fleet: rollingFleet("1.1.0", "1.1.0", "1.1.0"), Status: doneAt("1.1.0", "1.1.0"), Bundle: bundleOf("1.0.0", "1.0.0", "1.0.0"), Rollback: true,
	}
	for to, want := range map[string]bool{"1.0.0": false, "0.9.0": true} {
		in.Fleet.Rollback = protocol.Rollback{To: rel(to), Revision: 5}
		found := false
		for _, o := range Simulate(in).Obstacles {
			if o.Kind == ObstacleRollingBack {
				found = true
				if !strings.Contains(o.Message, "only nodes of release 0.9.0 lead") || !strings.Contains(o.Message, "sidecar rollback end") {
					t.Errorf("got %q", o.Message)
				}
			}
		}
		if found != want {
			t.Errorf("a rollback to %s: found %t, want %t", to, found, want)
		}
	}
}
