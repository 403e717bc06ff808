package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// rollingFleet is a fleet of nodes a, b, ... that are well and alive; b leads.
func rollingFleet(releases ...string) Fleet {
	f := Fleet{Revision: 50}
	for i, release := range releases {
		id := NodeID(rune('a' + i))
		r := Record{
			ID: id, Alive: true, Presence: Presence{Ready: true, Reason: Ready, Election: Campaigning},
			Node: Node{ID: id, Roles: Roles{Controller: true}, Version: ver(release), Digest: "d" + release},
		}
		if i == 1 {
			r.Presence.Election = Leading
		}
		f.Records = append(f.Records, r)
	}
	return f
}

func doneAt(release, minimum string) StatusView {
	return present(Status{
		State: Done, Version: ver(release), MinCompatible: rel(minimum), Leader: "b", Epoch: 7,
		Digest: "d" + release, ContentRelease: rel(release), ContentEpoch: 3,
	})
}

func bundleOf(release, m, a string) Local {
	return Local{Version: ver(release), Digest: "d" + release, Constraints: Constraints{MinReconciler: rel(m), MinApiserver: rel(a)}}
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

func TestForesee(t *testing.T) {
	three := func() Fleet { return rollingFleet("1.0.0", "1.0.0", "1.0.0") }
	with := func(f Fleet, i int, change func(*Record)) Fleet {
		change(&f.Records[i])
		return f
	}
	dead := func(r *Record) { r.Alive, r.Presence = false, Presence{} }
	for _, tt := range []struct {
		name string
		in   Rollout
		want string
	}{
		{"nothing is raised", Rollout{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
`},
		{"M is raised", Rollout{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.1.0", "1.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 1.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 1.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 1.0.0, a leads
`},
		{"A is raised", Rollout{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b c] then [a b c], DONE 1.0.0 min 0.0.0, a leads, waits for b, c
upgrade c: [a b] then [a b c], DONE 1.0.0 min 0.0.0, a leads, waits for b
upgrade b: [a c] then [a b c], DONE 1.1.0 min 1.1.0, a leads
`},
		{"both are raised", Rollout{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.1.0", "1.1.0")}, `
upgrade a: [b c] then [b c], DONE 1.0.0 min 0.0.0, a leads, waits for b, c
upgrade c: [b] then [b], DONE 1.0.0 min 0.0.0, a leads, waits for b
upgrade b: [] then [a b c], DONE 1.1.0 min 1.1.0, a leads
Deadlock a: it is not ready until b is upgraded (step 3), and the objects wait for b, c: cannot be rolled out from 1.0.0: minReconcilerRelease 1.1.0 and minApiserverRelease 1.1.0 are both above it, so the first upgraded node waits for objects that wait for the last old node; bring one of them with an earlier release of its own
Outage b: while it is upgraded no node is ready until it is back
`},
		{"back to a release that still fits", Rollout{Fleet: rollingFleet("1.1.0", "1.1.0", "1.1.0"), Status: doneAt("1.1.0", "1.0.0"), Bundle: bundleOf("1.0.0", "1.0.0", "0.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 1.0.0, b leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 1.0.0, b leads
upgrade b: [a c] then [a b c], DONE 1.0.0 min 0.0.0, a leads
`},
		{"back across a raised minimum", Rollout{Fleet: rollingFleet("1.1.0", "1.1.0", "1.1.0"), Status: doneAt("1.1.0", "1.1.0"), Bundle: bundleOf("1.0.0", "1.0.0", "0.0.0")}, `
upgrade a: [b c] then [b c], DONE 1.1.0 min 1.1.0, b leads
upgrade c: [b] then [b], DONE 1.1.0 min 1.1.0, b leads
upgrade b: [] then [a b c], DONE 1.0.0 min 0.0.0, a leads
NotReadyAfterUpgrade a: it comes back and is not ready until b is upgraded (step 3) (ReleaseTooOld): release 1.0.0 is below 1.1.0, the minimum for the objects as they are; upgrade this node
Outage b: while it is upgraded no node is ready until it is back
`},
		{"the next one before this one is done", Rollout{Fleet: rollingFleet("1.1.0", "1.1.0", "1.0.0"), Status: doneAt("1.1.0", "1.0.0"), Bundle: bundleOf("1.2.0", "1.1.0", "1.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.2.0 min 1.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.2.0 min 1.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.2.0 min 1.0.0, a leads
UpgradeUnderWay : the upgrade before this one is not done (upgradeReady is false): the status is DONE at 1.1.0, and the nodes are of 1.0.0, 1.1.0; finish it, or go back, before the next
`},
		{"an upgrade that has begun", Rollout{Fleet: with(rollingFleet("1.0.0", "1.1.0", "1.0.0"), 1, func(r *Record) { r.Node.MinReconciler = rel("1.0.0") }), Status: doneAt("1.1.0", "1.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 1.0.0, b leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 1.0.0, b leads
`},
		{"a dead node blocks", Rollout{Fleet: with(three(), 2, dead), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for b, c
upgrade b: [a] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for c
NodeDead c: it is not alive, and its record tells release 1.0.0: the upgrade is not complete while it is there; bring it back before, or if it has stopped for good: sidecar node remove c --confirm-stopped
Unfinished : when all that are alive are upgraded, the objects are still not those of the bundle: a waits for c; c: runs release 1.0.0, below 1.1.0, which the new objects need; upgrade it (it is not alive; if it has stopped for good: sidecar node remove c --confirm-stopped)
`},
		{"a dead node that may be passed over", Rollout{Fleet: with(three(), 2, func(r *Record) {
			dead(r)
			r.Node.FenceAfter = 10 * time.Minute
		}), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for b
upgrade b: [a] then [a b], DONE 1.1.0 min 1.1.0, a leads
NodeDead c: it is not alive, and its record tells release 1.0.0: the upgrade is not complete while it is there; bring it back before, or if it has stopped for good: sidecar node remove c --confirm-stopped
`},
		{"a corrupt record", Rollout{Fleet: with(three(), 2, func(r *Record) { r.Problem, r.Alive = "it is not a node record", false }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.0.0", "1.1.0")}, `
upgrade a: [b] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for b, c
upgrade b: [a] then [a b], DONE 1.0.0 min 0.0.0, a leads, waits for c
RecordCorrupt c: its record is corrupt: it is not a node record; its sidecar, if alive, writes it again; if the node is gone: sidecar node remove c --confirm-stopped
Unfinished : when all that are alive are upgraded, the objects are still not those of the bundle: a waits for c; c: its record is corrupt: it is not a node record; its sidecar, if alive, writes it again; if the node is gone: sidecar node remove c --confirm-stopped
`},
		{"a node that withdrew", Rollout{Fleet: with(three(), 0, func(r *Record) { r.Presence.Election = Withdrawn }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.1.0", "0.0.0")}, `
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, c leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, c leads
upgrade a: [b c] then [a b c], DONE 1.1.0 min 0.0.0, c leads
NodeWithdrawn a: it has withdrawn from the election, for its own apiserver is out of reach or refuses its user: repair that before
`},
		{"all withdrew", Rollout{Fleet: with(rollingFleet("1.0.0"), 0, func(r *Record) { r.Presence.Election = Withdrawn }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [] then [a], DONE 1.0.0 min 0.0.0,  leads
NodeWithdrawn a: it has withdrawn from the election, for its own apiserver is out of reach or refuses its user: repair that before
Unfinished : when all that are alive are upgraded, the objects are still not those of the bundle: nobody may lead
`},
		{"a node that is not ready already", Rollout{Fleet: with(three(), 2, func(r *Record) { r.Presence.Ready, r.Presence.Reason = false, Starting }), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [b] then [a b], DONE 1.1.0 min 0.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
NodeNotReady c: it is not ready now (Starting): repair that before
`},
		{"a new cluster", Rollout{Status: absent(), Bundle: bundleOf("1.1.0", "1.1.0", "1.1.0")}, `
start (first): [(first)], DONE 1.1.0 min 1.1.0, (first) leads
`},
		{"one node", Rollout{Fleet: rollingFleet("1.0.0"), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "1.1.0", "1.1.0")}, `
upgrade a: [] then [a], DONE 1.1.0 min 1.1.0, a leads
`},
		{"other objects of the same release", Rollout{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: Local{Version: ver("1.0.0"), Digest: "other"}}, `
reload : [a b c], DONE 1.0.0 min 0.0.0, b leads
`},
		{"other constraints of the same release", Rollout{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.0.0", "1.0.0", "0.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.0.0 min 0.0.0, b leads
upgrade c: [a b] then [a b c], DONE 1.0.0 min 0.0.0, b leads
upgrade b: [a c] then [a b c], DONE 1.0.0 min 0.0.0, a leads
`},
		{"all have it", Rollout{Fleet: three(), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.0.0", "0.0.0", "0.0.0")}, "\n"},
		{"all that are alive have it", Rollout{Fleet: with(rollingFleet("1.1.0", "1.1.0", "1.0.0"), 2, dead), Status: doneAt("1.1.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
NodeDead c: it is not alive, and its record tells release 1.0.0: the upgrade is not complete while it is there; bring it back before, or if it has stopped for good: sidecar node remove c --confirm-stopped
`},
		{"all have it, and it waits", Rollout{Fleet: with(rollingFleet("1.1.0", "1.1.0", "1.0.0"), 2, dead), Status: doneAt("1.0.0", "0.0.0"), Bundle: bundleOf("1.1.0", "0.0.0", "1.1.0")}, `
NodeDead c: it is not alive, and its record tells release 1.0.0: the upgrade is not complete while it is there; bring it back before, or if it has stopped for good: sidecar node remove c --confirm-stopped
Unfinished : when all that are alive are upgraded, the objects are still not those of the bundle: b waits for c; c: runs release 1.0.0, below 1.1.0, which the new objects need; upgrade it (it is not alive; if it has stopped for good: sidecar node remove c --confirm-stopped)
`},
		{"the status is garbage", Rollout{Fleet: three(), Status: corruptStatus(), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
StatusCorrupt : the reconciler status cannot be decoded (PROBLEM); the leader rebuilds it: look at sidecar status, and plan again
`},
		{"no status yet", Rollout{Fleet: three(), Status: absent(), Bundle: bundleOf("1.1.0", "0.0.0", "0.0.0")}, `
upgrade a: [b c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade c: [a b] then [a b c], DONE 1.1.0 min 0.0.0, a leads
upgrade b: [a c] then [a b c], DONE 1.1.0 min 0.0.0, a leads
UpgradeUnderWay : the upgrade before this one is not done (upgradeReady is false): there is no status yet: the first reconciliation is not finished; finish it, or go back, before the next
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.ReplaceAll(strings.TrimPrefix(tt.want, "\n"), "PROBLEM", corruptStatus().Problem)
			before := fmt.Sprint(tt.in)
			f := Foresee(tt.in)
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

// TestForeseeAgreesWithTheRuleOfReleases rolls every small release out over a
// fleet that is well, and holds the outcome to what DESIGN 4.10 says of it.
func TestForeseeAgreesWithTheRuleOfReleases(t *testing.T) {
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
						in := Rollout{Fleet: rollingFleet(from, from, from), Status: doneAt(from, minimum), Bundle: bundleOf(to, m, a)}
						in.Bundle.Digest = "new"
						checkRule(t, in, rel(from), rel(minimum))
					}
				}
			}
		}
	}
	t.Logf("%d rollouts", cases)
}

func checkRule(t *testing.T, in Rollout, from, minimum Release) {
	t.Helper()
	to := in.Bundle.Version.Release
	f := Foresee(in)
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
	if last := f.Moves[len(f.Moves)-1].After; len(last.Ready()) != 3 || last.Status.Status.State != Done || last.Status.Status.MinCompatible != in.Bundle.Constraints.MinApiserver {
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

// TestForeseeTakesConstraintsFromTheMark: a record does not tell the A of what
// its node runs.
func TestForeseeTakesConstraintsFromTheMark(t *testing.T) {
	in := Rollout{
		Fleet: rollingFleet("1.0.0"), Status: doneAt("1.1.0", "0.5.0"), Bundle: bundleOf("1.2.0", "0.0.0", "1.2.0"),
		Mark: Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{
			{Release: rel("1.0.0"), Digest: "other", Constraints: Constraints{MinApiserver: rel("0.1.0")}, Epoch: 1},
			{Release: rel("1.0.0"), Digest: "d1.0.0", Constraints: Constraints{MinApiserver: rel("0.2.0")}, Epoch: 2},
		}},
	}
	record := in.Fleet.Records[0]
	if got := newWorld(in).local(record).Constraints.MinApiserver; got != rel("0.2.0") {
		t.Errorf("by the mark: got %s", got)
	}
	in.Mark = Mark{}
	if got := newWorld(in).local(record).Constraints.MinApiserver; got != rel("0.5.0") {
		t.Errorf("by the status: got %s", got)
	}
	in.Status.Status.MinCompatible = rel("1.1.0")
	if got := newWorld(in).local(record).Constraints.MinApiserver; got != rel("1.0.0") {
		t.Errorf("never above its release: got %s", got)
	}
	record.Node.Digest = "d1.2.0"
	if got := newWorld(in).local(record).Constraints.MinApiserver; got != rel("1.2.0") {
		t.Errorf("by the bundle: got %s", got)
	}
}
