package rollout

import (
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestSimulate(t *testing.T) {
	runSimulations(t, []simulationCase{
		{"nothing is raised", Input{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
`},
		{"M is raised", Input{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.1.0", "1.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 1.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 1.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 1.0.0, a leads
`},
		{"A is raised", Input{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b c] then [a b c], DONE 1.0.0 min 0.0.0, a leads, waits for b, c
upgrade c: [a b] then [a b c], DONE 1.0.0 min 0.0.0, a leads, waits for b
upgrade b: [a c] then [a b c], DONE 1.1.0 min 1.1.0, a leads
`},
		{"both are raised", Input{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.1.0", "1.1.0")}, `
upgrade a: [b c] then [b c], DONE 1.0.0 min 0.0.0, a leads, waits for b, c
upgrade c: [b] then [b], DONE 1.0.0 min 0.0.0, a leads, waits for b
upgrade b: [] then [a b c], DONE 1.1.0 min 1.1.0, a leads
Deadlock a: it is not ready until b is upgraded (step 3), because the leader waits for b, c before it applies the objects; the bundle cannot be rolled out from 1.0.0: minReconcilerRelease 1.1.0 and minApiserverRelease 1.1.0 are both above it, so the first upgraded node waits for the new objects, and the objects wait for the last old node; raise one of the two in an earlier release
Outage b: once it stops, no node is ready until it is started again
`},
		{"back to a release that still fits", Input{Fleet: rollingFleet("1.1.0", "1.1.0", "1.1.0"), Status: doneAt("1.1.0", "1.0.0"), Bundle: bundleOf("1.0.0", "1.0.0", "0.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 1.0.0, b leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 1.0.0, b leads
upgrade b: [a c] then [a b c], DONE 1.0.0 min 0.0.0, a leads
`},
		{"back across a raised minimum", Input{Fleet: rollingFleet("1.1.0", "1.1.0", "1.1.0"), Status: doneAt("1.1.0", "1.1.0"), Bundle: bundleOf("1.0.0", "1.0.0", "0.0.0")}, `
upgrade a: [b c] then [b c], DONE 1.1.0 min 1.1.0, b leads
upgrade c: [b] then [b], DONE 1.1.0 min 1.1.0, b leads
upgrade b: [] then [a b c], DONE 1.0.0 min 0.0.0, a leads
NotReadyAfterUpgrade a: after its upgrade it is not ready until b is upgraded (step 3) (ReleaseTooOld): release 1.0.0 is below 1.1.0, the minimum that the objects need; upgrade this node, or roll all nodes back to 1.0.0
Outage b: once it stops, no node is ready until it is started again
`},
		{"a new cluster", Input{Status: noStatus, Bundle: bundleOf("1.1.0", "1.1.0", "1.1.0")}, `
start (first): [(first)], DONE 1.1.0 min 1.1.0, (first) leads
`},
		{"one node", Input{Fleet: rollingFleet("1.0.0"), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.1.0", "1.1.0")}, `
upgrade a: [] then [a], DONE 1.1.0 min 1.1.0, a leads
`},
		{"other objects of the same release", Input{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: protocol.Local{Version: ver("1.0.0"), Digest: "other"}}, `
reload : [a b c], DONE 1.0.0 min 0.0.0, b leads
`},
		{"other constraints of the same release", Input{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.0.0", "1.0.0", "0.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.0.0 min 0.0.0, b leads
upgrade c: [a b] then [a b c], DONE 1.0.0 min 0.0.0, b leads
upgrade b: [a c] then [a b c], DONE 1.0.0 min 0.0.0, a leads
`},
		{"all have it", Input{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.0.0", "0.0.0", "0.0.0")}, "\n"},
	})
}

// TestSimulate_minAPIServer: a record does not have the A of
// what its node runs.
func TestSimulate_minAPIServer(t *testing.T) {
	in := Input{
		Fleet: rollingFleet("1.0.0"), Status: doneAt("1.1.0", "0.5.0"), Bundle: bundleOf("1.2.0", "0.0.0", "1.2.0"),
		Mark: protocol.Mark{Kind: protocol.MarkPresent, FirstDone: true, Entries: []protocol.Content{
			{Release: rel("1.0.0"), Digest: "other", Constraints: protocol.Constraints{MinAPIServer: rel("0.1.0")}, Epoch: 1},
			{Release: rel("1.0.0"), Digest: "d1.0.0", Constraints: protocol.Constraints{MinAPIServer: rel("0.2.0")}, Epoch: 2},
		}},
	}
	record := *in.Fleet.Records[0]
	if got := newSimulation(in).local(&record).Constraints.MinAPIServer; got != rel("0.2.0") {
		t.Errorf("from the mark: got %s", got)
	}
	in.Mark = protocol.Mark{}
	if got := newSimulation(in).local(&record).Constraints.MinAPIServer; got != rel("0.5.0") {
		t.Errorf("from the status: got %s", got)
	}
	in.Status.Status.MinCompatible = rel("1.1.0")
	if got := newSimulation(in).local(&record).Constraints.MinAPIServer; got != rel("1.0.0") {
		t.Errorf("never above its release: got %s", got)
	}
	record.Node.Digest = "d1.2.0"
	if got := newSimulation(in).local(&record).Constraints.MinAPIServer; got != rel("1.2.0") {
		t.Errorf("from the bundle: got %s", got)
	}
}
