package rollout

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestDeadlock(t *testing.T) {
	for _, tt := range []struct {
		from, to, m, a string
		deadlock       bool
		risky          bool
	}{
		{"1.0.0", "1.1.0", "0.0.0", "0.0.0", false, false},
		{"1.0.0", "1.1.0", "1.0.0", "1.0.0", false, false},
		{"1.0.0", "1.1.0", "1.1.0", "1.0.0", false, false},
		{"1.0.0", "1.1.0", "1.0.0", "1.1.0", false, true},
		{"1.0.0", "1.1.0", "1.1.0", "1.1.0", true, true},
		{"1.0.0", "1.1.0", "1.0.1", "1.0.1", true, true},
		{"1.1.0", "1.1.0", "1.1.0", "1.1.0", false, false}, // nothing rolls
		{"1.2.0", "1.1.0", "1.1.0", "1.1.0", false, false}, // a way back
	} {
		c := protocol.Constraints{MinReconciler: rel(tt.m), MinAPIServer: rel(tt.a)}
		got := Deadlock(rel(tt.from), rel(tt.to), c)
		if (got != "") != tt.deadlock || tt.deadlock && !strings.Contains(got, tt.m+" and minApiserverRelease "+tt.a) {
			t.Errorf("Deadlock(%s, %s, M %s A %s): got %q, want one: %t", tt.from, tt.to, tt.m, tt.a, got, tt.deadlock)
		}
		if got := RollbackRisk(rel(tt.from), rel(tt.to), c); (got != "") != tt.risky {
			t.Errorf("RollbackRisk(%s, %s, M %s A %s): got %q, want one: %t", tt.from, tt.to, tt.m, tt.a, got, tt.risky)
		}
	}
}

// TestSimulate_agreesWithDeadlock rolls every small release out over a healthy
// fleet, and compares the outcome with docs/protocol.md#releases-that-can-roll.
func TestSimulate_agreesWithDeadlock(t *testing.T) {
	domain := []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"}
	upTo := func(release string) []string {
		return slices.DeleteFunc(slices.Clone(domain), func(r string) bool { return rel(release).Less(rel(r)) })
	}
	cases := 0
	for _, from := range domain {
		for _, minimum := range upTo(from) {
			for _, to := range domain {
				for _, m := range upTo(to) {
					for _, a := range upTo(to) {
						cases++
						in := Input{Fleet: rollingFleet(from, from, from), Status: doneAt(from, minimum), Bundle: bundleOf(to, m, a)}
						in.Bundle.Digest = "new"
						checkRule(t, in, rel(from), rel(minimum))
					}
				}
			}
		}
	}
	t.Logf("%d rollouts", cases)
}

func checkRule(t *testing.T, in Input, from, minimum protocol.Release) {
	t.Helper()
	to := in.Bundle.Version.Release
	f := Simulate(in)
	deadlocks := Deadlock(from, to, in.Bundle.Constraints) != ""
	back := to.Less(minimum) // the restarted nodes are too old for the objects
	// Other constraints of the same release need restarts, but a raised minimum
	// waits for no node: all have the release.
	if clean := len(f.Obstacles) == 0; clean == (deadlocks || back) {
		t.Errorf("from %s min %s to %s M %s A %s: got\n%s", from, minimum, to, in.Bundle.Constraints.MinReconciler, in.Bundle.Constraints.MinAPIServer, outline(f))
	}
	if len(f.Moves) == 0 {
		t.Errorf("from %s to %s: nothing moves", from, to)
		return
	}
	if last := f.Moves[len(f.Moves)-1].After; len(last.Ready()) != 3 || last.Status.Status.State != protocol.Done || last.Status.Status.MinCompatible != in.Bundle.Constraints.MinAPIServer {
		t.Errorf("from %s min %s to %s: ends with\n%s", from, minimum, to, outline(f))
	}
	for _, m := range f.Moves {
		for _, moment := range []Moment{m.While, m.After} {
			for _, g := range moment.Gates {
				if g.Verdict.Ready && !g.Alive {
					t.Errorf("%s is ready and not alive:\n%s", g.Node, outline(f))
				}
			}
		}
	}
}
