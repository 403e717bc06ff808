package rollout

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TestSimulate_otherBundle: leaders with the bundle of another name hold, unless people have
// asked for the replacement.
func TestSimulate_otherBundle(t *testing.T) {
	in := Input{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}
	for _, r := range in.Fleet.Records {
		r.Node.Bundle = "acme"
	}
	in.Status.Status.Bundle, in.Bundle.Bundle = "acme", "base"
	asked, unnamed := in, in
	asked.Replacement = protocol.Replacement{From: "acme", To: "base", Revision: 60}
	unnamed.Status.Status.Bundle = ""
	unnamed.Mark = protocol.Mark{Kind: protocol.MarkPresent, FirstDone: true, Entries: []protocol.Content{
		{Release: rel("1.0.0"), Digest: "d1.0.0", Bundle: "acme", Epoch: 3},
	}}
	const holding = `
upgrade a: [b c] then [a b c], DONE 1.0.0 min 0.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.0.0 min 0.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.0.0 min 0.0.0, a leads
OtherBundle : held by HoldForBundle: the objects are of the bundle acme, so a leader that runs base applies and removes nothing; check --bundle, or if base is meant to replace acme, type when a node runs it: sidecar bundle replace --from acme --to base
`
	runSimulations(t, []simulationCase{
		{"held", in, holding},
		{"held by the name in the mark", unnamed, holding},
		{"asked for", asked, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
`},
	})
	events := ""
	for _, m := range Simulate(in).Moves {
		events += strings.Join(append(m.Events, ""), "; ")
		if m.Changed || m.Removed {
			t.Errorf("after the upgrade of %s: objects change (%t) or are removed (%t)", m.Node, m.Changed, m.Removed)
		}
	}
	if want := "a leads; a holds (HoldForBundle), and applies nothing: see OBSTACLES; "; events != want {
		t.Errorf("got %q, want %q", events, want)
	}
	// A sidecar that runs does not reload a bundle of another name.
	in.Bundle = protocol.Local{Version: ver("1.0.0"), Digest: "other", Bundle: "base"}
	if moves := Simulate(in).Moves; len(moves) != 3 || moves[0].Kind != MoveUpgrade {
		t.Errorf("the same release under another name: got %+v", moves)
	}
}
