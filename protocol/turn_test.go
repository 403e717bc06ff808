package protocol

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func turnFleet(records ...*Record) Fleet {
	slices.SortFunc(records, func(a, b *Record) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return Fleet{Records: records}
}

func TestJudgeTurn(t *testing.T) {
	a, b, c := controller("a", "1.0.0").ready(), controller("b", "1.0.0").ready(), controller("c", "1.0.0").ready()
	down := controller("b", "1.0.0").ready()
	down.Presence.APIServerDown = true
	ownDown := controller("a", "1.0.0").ready()
	ownDown.Presence.APIServerDown = true
	both := controller("b", "1.0.0").cordoned().overridden()
	voters := func(answers ...bool) (v []Voter) {
		for i, yes := range answers {
			v = append(v, Voter{Name: "abc"[i : i+1], Healthy: yes})
		}
		return v
	}
	queue := []TurnRequest{{Node: "a", Created: 9}, {Node: "b", Created: 7}}
	for _, tc := range []struct {
		name  string
		facts TurnFacts
		want  TurnVerdict
		waits NodeID
	}{
		{"all serve", TurnFacts{Fleet: turnFleet(a, b, c)}, TurnGranted, ""},
		{"it has the turn", TurnFacts{Fleet: turnFleet(a, b), Held: []NodeID{"a"}}, TurnHeld, "a"},
		{"not registered", TurnFacts{Fleet: turnFleet(b, c)}, TurnNotController, "a"},
		{"a worker", TurnFacts{Fleet: turnFleet(a.worker(), b)}, TurnNotController, "a"},
		{"another one has the turn", TurnFacts{Fleet: turnFleet(a, b, c), Held: []NodeID{"c"}}, TurnTaken, "c"},
		{"a dead one has the turn", TurnFacts{Fleet: turnFleet(a, b, c.dead()), Held: []NodeID{"c"}}, TurnTaken, "c"},
		{"the second of two turns", TurnFacts{Limit: 2, Fleet: turnFleet(a, b, c.cordoned()), Held: []NodeID{"c"}}, TurnGranted, ""},
		{"two turns, and two nodes", TurnFacts{Limit: 2, Fleet: turnFleet(a, c), Held: []NodeID{"c"}}, TurnLastInService, ""},
		{"another one is cordoned", TurnFacts{Fleet: turnFleet(a, b.cordoned(), c)}, TurnWaitsForNode, "b"},
		{"another one is cordoned, and open by an override", TurnFacts{Fleet: turnFleet(a, both, c)}, TurnWaitsForNode, "b"},
		{"another one is dead", TurnFacts{Fleet: turnFleet(a, b.dead(), c)}, TurnWaitsForNode, "b"},
		{"another one is corrupt", TurnFacts{Fleet: turnFleet(a, b.corrupt("garbage"), c)}, TurnWaitsForNode, "b"},
		{"the gate of another one is closed", TurnFacts{Fleet: turnFleet(a, controller("b", "1.0.0"), c)}, TurnWaitsForNode, "b"},
		{"the kube-apiserver of another one is down", TurnFacts{Fleet: turnFleet(a, down, c)}, TurnWaitsForNode, "b"},
		{"a dead worker", TurnFacts{Fleet: turnFleet(a, b.worker().dead(), c)}, TurnGranted, ""},
		{"it is out already", TurnFacts{Fleet: turnFleet(a.cordoned(), b, c)}, TurnGranted, ""},
		{"the only controller", TurnFacts{Fleet: turnFleet(a)}, TurnLastInService, ""},
		{"the only controller, and it is out already", TurnFacts{Fleet: turnFleet(controller("a", "1.0.0"))}, TurnGranted, ""},
		{"it is open by an override", TurnFacts{Fleet: turnFleet(controller("a", "1.0.0").overridden(), b, c)}, TurnWaitsForNode, "a"},
		{"others are open by overrides alone", TurnFacts{Fleet: turnFleet(a, controller("b", "1.0.0").overridden())}, TurnLastInService, ""},
		{"all voters answer", TurnFacts{Fleet: turnFleet(a, b, c), Voters: voters(true, true, true)}, TurnGranted, ""},
		{"a voter does not answer", TurnFacts{Fleet: turnFleet(a, b, c), Voters: voters(true, true, false)}, TurnWaitsForMajority, ""},
		{"two voters", TurnFacts{Fleet: turnFleet(a, b), Voters: voters(true, true)}, TurnWaitsForMajority, ""},
		{"its own voter does not answer", TurnFacts{Fleet: turnFleet(a, b), Voters: voters(false, true)}, TurnGranted, ""},
		{"a voter has a turn", TurnFacts{Limit: 2, Fleet: turnFleet(a, b, c), Held: []NodeID{"c"}, Voters: voters(true, true, true)}, TurnWaitsForMajority, ""},
		{"both are broken", TurnFacts{Fleet: turnFleet(ownDown, down)}, TurnWaitsForNode, "b"},
		{"both have been broken for long", TurnFacts{Fleet: turnFleet(ownDown, down), Out: TurnPatience}, TurnGranted, ""},
		{"both have been broken for a while", TurnFacts{Fleet: turnFleet(ownDown, down), Out: TurnPatience - 1}, TurnWaitsForNode, "b"},
		{"it serves again", TurnFacts{Fleet: turnFleet(a, down), Out: TurnPatience}, TurnWaitsForNode, "b"},
		{"its gate has been closed for long", TurnFacts{Fleet: turnFleet(controller("a", "1.0.0"), b.dead()), Out: TurnPatience}, TurnGranted, ""},
		{"the other broken one has the turn", TurnFacts{Fleet: turnFleet(ownDown, down), Held: []NodeID{"b"}, Out: TurnPatience}, TurnTaken, "b"},
		{"behind another one", TurnFacts{Fleet: turnFleet(a, b, c), Waiting: queue}, TurnQueued, "b"},
		{"behind one that cannot have it", TurnFacts{Fleet: turnFleet(controller("a", "1.0.0"), b, c), Waiting: queue}, TurnGranted, ""},
	} {
		got := JudgeTurn(tc.facts, "a")
		if got.Verdict != tc.want || got.For != tc.waits || (got.Message == "") != (tc.want == TurnGranted) {
			t.Errorf("%s: got %+v, want %d for %q", tc.name, got, tc.want, tc.waits)
		}
	}
}

func TestExplainWait(t *testing.T) {
	serves, out, dead := controller("a", "1.0.0").ready(), controller("a", "1.0.0"), controller("b", "1.0.0").dead()
	voters := []Voter{{Name: "a", Healthy: true}, {Name: "b"}}
	const patient = `node "b" is dead; once node "a" has been out of service for 1m0s itself, it no longer waits for that`
	for name, tc := range map[string]struct {
		facts TurnFacts
		want  string
	}{
		"it serves":            {TurnFacts{Fleet: turnFleet(serves, dead)}, `node "b" is dead`},
		"it is out":            {TurnFacts{Fleet: turnFleet(out, dead)}, patient},
		"and etcd holds it":    {TurnFacts{Fleet: turnFleet(out, dead), Voters: voters}, patient + ", but: etcd would lose its majority: 0 of its 2 voters would answer, and it needs 2"},
		"the turn is taken":    {TurnFacts{Fleet: turnFleet(out, dead), Held: []NodeID{"b"}}, `node "b" has the turn`},
		"nothing holds it":     {TurnFacts{Fleet: turnFleet(out)}, ""},
		"it is not registered": {TurnFacts{Fleet: turnFleet(dead)}, `node "a" is not a registered controller`},
	} {
		if got := ExplainWait(tc.facts, "a"); got.Message != tc.want {
			t.Errorf("%s: got %q, want %q", name, got.Message, tc.want)
		}
	}
}

// The only node would wait for its turn without end, so the answer says that.
func TestJudgeTurn_only(t *testing.T) {
	a, b := controller("a", "1.0.0").ready(), controller("b", "1.0.0").ready()
	const hint = "is the only controller; do its work without a turn"
	for _, tc := range []struct {
		fleet TurnFacts
		want  bool
	}{
		{TurnFacts{Fleet: turnFleet(a)}, true},
		{TurnFacts{Fleet: turnFleet(a, b.worker())}, true},
		{TurnFacts{Limit: 2, Fleet: turnFleet(a, b), Held: []NodeID{"b"}}, false},
	} {
		if got := JudgeTurn(tc.fleet, "a"); strings.HasSuffix(got.Message, hint) != tc.want || got.Verdict != TurnLastInService {
			t.Errorf("%v: got %+v", tc.fleet.Fleet.Records, got)
		}
	}
}

func TestNextTurnAction(t *testing.T) {
	serves, closed := controller("a", "1.0.0").ready(), controller("a", "1.0.0")
	down := controller("a", "1.0.0").ready()
	down.Presence.APIServerDown = true
	leaving := controller("a", "1.0.0").worker()
	leaving.Node.Serves = true
	for _, tc := range []struct {
		name string
		of   TurnProgress
		want TurnAction
	}{
		{"under way", TurnProgress{TurnWorkUnderWay, true, *serves.cordoned(), true}, KeepTurn},
		{"failed, and it serves", TurnProgress{TurnWorkFailed, false, *serves, true}, KeepTurn},
		{"not known", TurnProgress{0, false, *serves, true}, KeepTurn},
		{"done", TurnProgress{TurnWorkDone, true, *closed.cordoned(), true}, ReturnToService},
		{"people have cordoned it", TurnProgress{TurnWorkDone, false, *closed.cordoned(), true}, AwaitService},
		{"its gate is closed", TurnProgress{TurnWorkDone, false, *closed, true}, AwaitService},
		{"its kube-apiserver is down", TurnProgress{TurnWorkDone, false, *down, true}, AwaitService},
		{"it is dead", TurnProgress{TurnWorkDone, false, *serves.dead(), true}, AwaitService},
		{"its member does not answer", TurnProgress{TurnWorkDone, false, *serves, false}, AwaitService},
		{"it serves by an override alone", TurnProgress{TurnWorkDone, false, *controller("a", "1.0.0").overridden(), true}, AwaitService},
		{"it is cordoned, and serves by an override", TurnProgress{TurnWorkDone, true, *closed.cordoned().overridden(), true}, ReturnToService},
		{"it serves", TurnProgress{TurnWorkDone, false, *serves, true}, EndTurn},
		{"it has lost the controller role", TurnProgress{TurnWorkDone, false, *controller("a", "1.0.0").worker(), true}, EndTurn},
		{"it may still serve without the role", TurnProgress{TurnWorkDone, false, *leaving, true}, AwaitService},
		{"it has no record", TurnProgress{TurnWorkDone, false, Record{}, true}, AwaitService},
		{"its record is corrupt", TurnProgress{TurnWorkDone, false, Record{ID: "a", Problem: "x"}, true}, AwaitService},
	} {
		if got := NextTurnAction(tc.of); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestTurn_Overdue(t *testing.T) {
	now := time.Unix(1000, 0)
	for until, want := range map[time.Time]bool{{}: false, now.Add(time.Second): false, now: true, now.Add(-time.Second): true} {
		if got := (Turn{Until: until}).Overdue(now); got != want {
			t.Errorf("until %s: got %t", until, got)
		}
	}
}
