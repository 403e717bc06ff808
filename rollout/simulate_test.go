package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// rel parses a release of a test.
func rel(s string) (r protocol.Release) {
	if _, err := fmt.Sscanf(s, "%d.%d.%d", &r.Major, &r.Minor, &r.Patch); err != nil {
		panic(err)
	}
	return r
}

func ver(s string) protocol.Version { return protocol.Version{Release: rel(s)} }

// garbage is a status that cannot be decoded.
var garbage = protocol.StatusView{Kind: protocol.StatusUndecodable, Problem: "garbage", Revision: 50}

// noStatus is an absent status.
var noStatus = protocol.StatusView{Kind: protocol.StatusAbsent}

// rollingFleet is a fleet of nodes a, b, ... that are well and alive; b leads.
func rollingFleet(releases ...string) protocol.Fleet {
	f := protocol.Fleet{Revision: 50}
	for i, release := range releases {
		id := protocol.NodeID(rune('a' + i))
		r := protocol.Record{
			ID: id, Alive: true, Presence: protocol.Presence{Ready: true, Reason: protocol.Ready, Election: protocol.Campaigning},
			Node: protocol.Node{ID: id, Roles: protocol.Roles{Controller: true}, Version: ver(release), Digest: "d" + release},
		}
		if i == 1 {
			r.Presence.Election = protocol.Leading
		}
		f.Records = append(f.Records, r)
	}
	return f
}

func doneAt(release, minimum string) protocol.StatusView {
	return protocol.StatusView{Kind: protocol.StatusPresent, Revision: 50, Status: protocol.Status{
		State: protocol.Done, Version: ver(release), MinCompatible: rel(minimum), Leader: "b", Epoch: 7,
		Digest: "d" + release, ContentRelease: rel(release), ContentEpoch: 3,
	}}
}

func bundleOf(release, m, a string) protocol.Local {
	return protocol.Local{Version: ver(release), Digest: "d" + release, Constraints: protocol.Constraints{MinReconciler: rel(m), MinApiserver: rel(a)}}
}

// outline is a forecast in short: a line for each move and each obstacle.
func outline(f Forecast) string {
	var b strings.Builder
	for _, m := range f.Moves {
		kind := map[MoveKind]string{MoveUpgrade: "upgrade", MoveReload: "reload", MoveStart: "start"}[m.Kind]
		fmt.Fprintf(&b, "%s %s: ", kind, m.Node)
		if m.Kind == MoveUpgrade {
			fmt.Fprintf(&b, "%v then ", m.While.Ready())
		}
		s := m.After.Status.Status
		fmt.Fprintf(&b, "%v, %s %s min %s, %s leads", m.After.Ready(), s.State, s.Version, s.MinCompatible, m.After.Leader)
		if names := names(m.After.Step.Blockers); names != "" {
			fmt.Fprintf(&b, ", waits for %s", names)
		}
		b.WriteString("\n")
	}
	for _, o := range f.Obstacles {
		fmt.Fprintf(&b, "%s %s: %s\n", o.Kind, o.Node, o.Message)
	}
	return b.String()
}

func TestSimulate(t *testing.T) {
	three := func() protocol.Fleet { return rollingFleet("1.0.0", "1.0.0", "1.0.0") }
	with := func(f protocol.Fleet, i int, change func(*protocol.Record)) protocol.Fleet {
		change(&f.Records[i])
		return f
	}
	dead := func(r *protocol.Record) { r.Alive, r.Presence = false, protocol.Presence{} }
	for _, tt := range []struct {
		name string
		in   Input
		want string
	}{
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
Deadlock a: it is not ready until b is upgraded (step 3), because the leader waits for b, c before it applies the objects: cannot be rolled out from 1.0.0: minReconcilerRelease 1.1.0 and minApiserverRelease 1.1.0 are both above it, so the first upgraded node waits for the new objects, and the objects wait for the last old node; raise one of the two in an earlier release
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
NotReadyAfterUpgrade a: after its upgrade it is not ready until b is upgraded (step 3) (ReleaseTooOld): release 1.0.0 is below 1.1.0, the minimum that the objects need; upgrade this node
Outage b: once it stops, no node is ready until it is started again
`},
		{"the next one before this one is done", Input{Fleet: rollingFleet("1.1.0", "1.1.0", "1.0.0"), Status: doneAt("1.1.0", "1.0.0"), Bundle: bundleOf("1.2.0", "1.1.0", "1.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.2.0 min 1.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.2.0 min 1.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.2.0 min 1.0.0, a leads
UpgradeUnderWay : the previous upgrade is not complete (upgradeReady is false): the status is DONE at 1.1.0, and the nodes run 1.0.0, 1.1.0; complete it, or roll it back, first
`},
		{"an upgrade that has begun", Input{Fleet: with(rollingFleet("1.0.0", "1.1.0", "1.0.0"), 1, func(r *protocol.Record) { r.Node.MinReconciler = rel("1.0.0") }), Status: doneAt("1.1.0", "1.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 1.0.0, b leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 1.0.0, b leads
`},
		{"a dead node blocks", Input{Fleet: with(three(), 2, dead), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for b, c
upgrade b: [a] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for c
NodeDead c: it is not alive, and its record has release 1.0.0, so the upgrade cannot complete; start it again first, or if it has stopped for good: sidecar node remove c --confirm-stopped
Unfinished : all live nodes have the bundle, and the objects are still not at it: a waits for c; c: runs release 1.0.0, but the new objects need 1.1.0 or newer; upgrade it (it is not alive; if it has stopped for good: sidecar node remove c --confirm-stopped)
`},
		{"a dead node that may be passed over", Input{Fleet: with(three(), 2, func(r *protocol.Record) {
			dead(r)
			r.Node.FenceAfter = 10 * time.Minute
		}), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for b
upgrade b: [a] then [a b], DONE 1.1.0 min 1.1.0, a leads
NodeDead c: it is not alive, and its record has release 1.0.0, so the upgrade cannot complete; start it again first, or if it has stopped for good: sidecar node remove c --confirm-stopped
`},
		{"a corrupt record", Input{Fleet: with(three(), 2, func(r *protocol.Record) { r.Problem, r.Alive = "it is not a node record", false }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for b, c
upgrade b: [a] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for c
RecordCorrupt c: its record is corrupt: it is not a node record; its sidecar writes it again if it is alive; if the node has stopped for good: sidecar node remove c --confirm-stopped
Unfinished : all live nodes have the bundle, and the objects are still not at it: a waits for c; c: its record is corrupt: it is not a node record; its sidecar writes it again if it is alive; if the node has stopped for good: sidecar node remove c --confirm-stopped
`},
		{"a node that withdrew", Input{Fleet: with(three(), 0, func(r *protocol.Record) { r.Presence.Election = protocol.Withdrawn }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.1.0", "0.0.0")}, `
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, c leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, c leads
upgrade a: [b c] then [a b c], DONE 1.1.0 min 0.0.0, c leads
NodeWithdrawn a: its sidecar has withdrawn from the election: its kube-apiserver is unreachable or rejects the kubeconfig's user; repair that first
`},
		{"all withdrew", Input{Fleet: with(rollingFleet("1.0.0"), 0, func(r *protocol.Record) { r.Presence.Election = protocol.Withdrawn }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [] then [a], DONE 1.0.0 min 0.0.0,  leads
NodeWithdrawn a: its sidecar has withdrawn from the election: its kube-apiserver is unreachable or rejects the kubeconfig's user; repair that first
Unfinished : all live nodes have the bundle, and the objects are still not at it: no node may lead
`},
		{"a node that is not ready already", Input{Fleet: with(three(), 2, func(r *protocol.Record) { r.Presence.Ready, r.Presence.Reason = false, protocol.Starting }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [b] then [a b], DONE 1.1.0 min 0.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
NodeNotReady c: it is not ready now (Starting); repair that first
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
		{"all that are alive have it", Input{Fleet: with(rollingFleet("1.1.0", "1.1.0", "1.0.0"), 2, dead), Status: doneAt("1.1.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
NodeDead c: it is not alive, and its record has release 1.0.0, so the upgrade cannot complete; start it again first, or if it has stopped for good: sidecar node remove c --confirm-stopped
`},
		{"all have it, and it waits", Input{Fleet: with(rollingFleet("1.1.0", "1.1.0", "1.0.0"), 2, dead), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "1.1.0")}, `
NodeDead c: it is not alive, and its record has release 1.0.0, so the upgrade cannot complete; start it again first, or if it has stopped for good: sidecar node remove c --confirm-stopped
Unfinished : all live nodes have the bundle, and the objects are still not at it: b waits for c; c: runs release 1.0.0, but the new objects need 1.1.0 or newer; upgrade it (it is not alive; if it has stopped for good: sidecar node remove c --confirm-stopped)
`},
		{"the status is garbage", Input{Fleet: three(), Status: garbage, Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
StatusCorrupt : the reconciler status cannot be decoded (PROBLEM); the leader rebuilds it: check it with sidecar status, then plan again
`},
		{"no status yet", Input{Fleet: three(), Status: noStatus, Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
UpgradeUnderWay : the previous upgrade is not complete (upgradeReady is false): there is no status yet, because the first reconciliation is not finished; complete it, or roll it back, first
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.ReplaceAll(strings.TrimPrefix(tt.want, "\n"), "PROBLEM", garbage.Problem)
			before := fmt.Sprint(tt.in)
			f := Simulate(tt.in)
			if got := outline(f); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if fmt.Sprint(tt.in) != before {
				t.Error("what was given was changed")
			}
			for _, m := range f.Moves {
				t.Log(m.Node, m.Changed, m.Events)
			}
		})
	}
}

// TestSimulateAgreesWithTheRuleOfReleases rolls every small release out over a
// fleet that is well, and holds the outcome to what docs/protocol.md#releases-that-can-roll says of it.
func TestSimulateAgreesWithTheRuleOfReleases(t *testing.T) {
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
	dead := Deadlock(from, to, in.Bundle.Constraints) != ""
	back := to.Less(minimum) // what comes back is too old for the objects
	// Other constraints of one release come by restarts: a minimum that is
	// raised then waits for nobody, since all are of the release.
	if clean := len(f.Obstacles) == 0; clean == (dead || back) {
		t.Errorf("from %s min %s to %s M %s A %s: got\n%s", from, minimum, to, in.Bundle.Constraints.MinReconciler, in.Bundle.Constraints.MinApiserver, outline(f))
	}
	if len(f.Moves) == 0 {
		t.Errorf("from %s to %s: nothing moves", from, to)
		return
	}
	if last := f.Moves[len(f.Moves)-1].After; len(last.Ready()) != 3 || last.Status.Status.State != protocol.Done || last.Status.Status.MinCompatible != in.Bundle.Constraints.MinApiserver {
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

// TestSimulateTakesConstraintsFromTheMark: a record does not tell the A of what
// its node runs.
func TestSimulateTakesConstraintsFromTheMark(t *testing.T) {
	in := Input{
		Fleet: rollingFleet("1.0.0"), Status: doneAt("1.1.0", "0.5.0"), Bundle: bundleOf("1.2.0", "0.0.0", "1.2.0"),
		Mark: protocol.Mark{Kind: protocol.MarkPresent, FirstDone: true, Entries: []protocol.Content{
			{Release: rel("1.0.0"), Digest: "other", Constraints: protocol.Constraints{MinApiserver: rel("0.1.0")}, Epoch: 1},
			{Release: rel("1.0.0"), Digest: "d1.0.0", Constraints: protocol.Constraints{MinApiserver: rel("0.2.0")}, Epoch: 2},
		}},
	}
	record := in.Fleet.Records[0]
	if got := newSimulation(in).local(record).Constraints.MinApiserver; got != rel("0.2.0") {
		t.Errorf("by the mark: got %s", got)
	}
	in.Mark = protocol.Mark{}
	if got := newSimulation(in).local(record).Constraints.MinApiserver; got != rel("0.5.0") {
		t.Errorf("by the status: got %s", got)
	}
	in.Status.Status.MinCompatible = rel("1.1.0")
	if got := newSimulation(in).local(record).Constraints.MinApiserver; got != rel("1.0.0") {
		t.Errorf("never above its release: got %s", got)
	}
	record.Node.Digest = "d1.2.0"
	if got := newSimulation(in).local(record).Constraints.MinApiserver; got != rel("1.2.0") {
		t.Errorf("by the bundle: got %s", got)
	}
}
