package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
			if o.Reason == protocol.RollingBack {
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

// The node in its turn of a rollback is out of service, or restarting, because of its work: the plan is clean, and says so.
func TestRollbackInATurn(t *testing.T) {
	out := func(r *protocol.Record) {
		r.Node.Cordon = protocol.Cordon{Turn: true, Since: time.Unix(1, 0)}
		r.Presence = protocol.Presence{Reason: protocol.Cordoned, Election: protocol.Ineligible}
	}
	for name, change := range map[string]func(*protocol.Record){
		"out of service": out,
		"restarting":     func(r *protocol.Record) { out(r); r.Alive = false; r.Presence = protocol.Presence{} },
		"rolled back":    func(r *protocol.Record) { out(r); r.Node.Version = ver("1.0.0"); r.Node.Digest = "d1.0.0" },
	} {
		for _, nodes := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s of %d", name, nodes), func(t *testing.T) {
				in := Input{
					Fleet:  rollingFleet([]string{"1.1.0", "1.1.0", "1.1.0"}[:nodes]...),
					Status: doneAt("1.1.0", "1.0.0"), Bundle: bundleOf("1.0.0", "1.0.0", "1.0.0"), Rollback: true,
				}
				in.Fleet.Rollback = protocol.Rollback{To: rel("1.0.0"), Revision: 5}
				change(in.Fleet.Records[0])
				turn := protocol.Turn{Node: "a", Since: time.Unix(0, 0), Kind: protocol.TurnOfCommand, Command: "restart"}
				in.Fleet.Turns.Held = []protocol.Turn{turn}
				got := Simulate(in)
				if len(got.Obstacles) > 0 {
					t.Errorf("got\n%s", outline(got))
				}
				if len(got.Turns) != 1 || !strings.HasPrefix(got.Turns[0], `node "a" has the turn since 1970-`) || !strings.HasSuffix(got.Turns[0], "restart: its part of this rollback") {
					t.Errorf("got %q", got.Turns)
				}
				turn.Work = protocol.TurnWorkFailed
				in.Fleet.Turns.Held = []protocol.Turn{turn}
				if got := Simulate(in); len(got.Obstacles) == 0 && name == "restarting" || len(got.Turns) > 0 {
					t.Errorf("its work failed: got %q and\n%s", got.Turns, outline(got))
				}
			})
		}
	}
}
