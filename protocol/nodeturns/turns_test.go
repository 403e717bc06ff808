package nodeturns

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestJudge(t *testing.T) {
	a, b, c := controller("a").ready(), controller("b").ready(), controller("c").ready()
	down := controller("b").ready()
	down.Presence.APIServerDown = true
	ownDown := controller("a").ready()
	ownDown.Presence.APIServerDown = true
	both := controller("b").cordoned().overridden()
	voters := func(answers ...bool) (v []protocol.Voter) {
		for i, yes := range answers {
			v = append(v, protocol.Voter{Name: "abc"[i : i+1], Healthy: yes})
		}
		return v
	}
	queue := []protocol.TurnRequest{{Node: "a", Created: 9}, {Node: "b", Created: 7}}
	for _, tc := range []struct {
		name  string
		facts Facts
		want  Verdict
		waits protocol.NodeID
	}{
		{"all serve", Facts{Fleet: fleetOf(a, b, c)}, Granted, ""},
		{"it has the turn", Facts{Fleet: withTurns(fleetOf(a, b), 0, "a")}, Held, "a"},
		{"not registered", Facts{Fleet: fleetOf(b, c)}, NotController, "a"},
		{"a worker", Facts{Fleet: fleetOf(a.worker(), b)}, NotController, "a"},
		{"another one has the turn", Facts{Fleet: withTurns(fleetOf(a, b, c), 0, "c")}, Taken, "c"},
		{"a dead one has the turn", Facts{Fleet: withTurns(fleetOf(a, b, c.dead()), 0, "c")}, Taken, "c"},
		{"the second of two turns", Facts{Fleet: withTurns(fleetOf(a, b, c.cordoned()), 2, "c")}, Granted, ""},
		{"two turns, and two nodes", Facts{Fleet: withTurns(fleetOf(a, c), 2, "c")}, LastInService, ""},
		{"another one is cordoned", Facts{Fleet: fleetOf(a, b.cordoned(), c)}, WaitsForNode, "b"},
		{"another one is cordoned, and open by an override", Facts{Fleet: fleetOf(a, both, c)}, WaitsForNode, "b"},
		{"another one is dead", Facts{Fleet: fleetOf(a, b.dead(), c)}, WaitsForNode, "b"},
		{"another one is corrupt", Facts{Fleet: fleetOf(a, b.corrupt("garbage"), c)}, WaitsForNode, "b"},
		{"the gate of another one is closed", Facts{Fleet: fleetOf(a, controller("b"), c)}, WaitsForNode, "b"},
		{"the kube-apiserver of another one is down", Facts{Fleet: fleetOf(a, down, c)}, WaitsForNode, "b"},
		{"a dead worker", Facts{Fleet: fleetOf(a, b.worker().dead(), c)}, Granted, ""},
		{"it is out already", Facts{Fleet: fleetOf(a.cordoned(), b, c)}, Granted, ""},
		{"the only controller", Facts{Fleet: fleetOf(a)}, LastInService, ""},
		{"the only controller, and it is out already", Facts{Fleet: fleetOf(controller("a"))}, Granted, ""},
		{"it is open by an override", Facts{Fleet: fleetOf(controller("a").overridden(), b, c)}, WaitsForNode, "a"},
		{"others are open by overrides alone", Facts{Fleet: fleetOf(a, controller("b").overridden())}, LastInService, ""},
		{"all voters answer", Facts{Fleet: fleetOf(a, b, c), Voters: voters(true, true, true)}, Granted, ""},
		{"a voter does not answer", Facts{Fleet: fleetOf(a, b, c), Voters: voters(true, true, false)}, WaitsForMajority, ""},
		{"two voters", Facts{Fleet: fleetOf(a, b), Voters: voters(true, true)}, WaitsForMajority, ""},
		{"its own voter does not answer", Facts{Fleet: fleetOf(a, b), Voters: voters(false, true)}, Granted, ""},
		{"a voter has a turn", Facts{Fleet: withTurns(fleetOf(a, b, c), 2, "c"), Voters: voters(true, true, true)}, WaitsForMajority, ""},
		{"both are broken", Facts{Fleet: fleetOf(ownDown, down)}, WaitsForNode, "b"},
		{"both have been broken for long", Facts{Fleet: fleetOf(ownDown, down), Out: Patience}, Granted, ""},
		{"both have been broken for a while", Facts{Fleet: fleetOf(ownDown, down), Out: Patience - 1}, WaitsForNode, "b"},
		{"it serves again", Facts{Fleet: fleetOf(a, down), Out: Patience}, WaitsForNode, "b"},
		{"its gate has been closed for long", Facts{Fleet: fleetOf(controller("a"), b.dead()), Out: Patience}, Granted, ""},
		{"the other broken one has the turn", Facts{Fleet: withTurns(fleetOf(ownDown, down), 0, "b"), Out: Patience}, Taken, "b"},
		{"behind another one", Facts{Fleet: withQueue(fleetOf(a, b, c), queue)}, Queued, "b"},
		{"behind one that cannot have it", Facts{Fleet: withQueue(fleetOf(controller("a"), b, c), queue)}, Granted, ""},
	} {
		got := Judge(tc.facts, "a")
		if got.Verdict != tc.want || got.For != tc.waits || (got.Message == "") != (tc.want == Granted) {
			t.Errorf("%s: got %+v, want %d for %q", tc.name, got, tc.want, tc.waits)
		}
	}
}

func TestExplainWait(t *testing.T) {
	serves, out, dead := controller("a").ready(), controller("a"), controller("b").dead()
	forced := controller("a").overridden()
	forced.Presence.Warnings = []protocol.Warning{protocol.WarnsOfOverride(protocol.Override{}, " --override-file=/x")}
	voters := []protocol.Voter{{Name: "a", Healthy: true}, {Name: "b"}}
	const patient = `node "b" is dead; once node "a" has been out of service for 1m0s itself, it no longer waits for that`
	for name, tc := range map[string]struct {
		facts Facts
		want  string
	}{
		"it serves":            {Facts{Fleet: fleetOf(serves, dead)}, `node "b" is dead`},
		"it is out":            {Facts{Fleet: fleetOf(out, dead)}, patient},
		"and etcd holds it":    {Facts{Fleet: fleetOf(out, dead), Voters: voters}, patient + ", but: etcd would lose its majority: 0 of its 2 voters would answer, and it needs 2"},
		"the turn is taken":    {Facts{Fleet: withTurns(fleetOf(out, dead), 0, "b")}, `node "b" has the turn`},
		"nothing holds it":     {Facts{Fleet: fleetOf(out)}, ""},
		"an override":          {Facts{Fleet: fleetOf(forced)}, `node "a" serves by an override; to end that, type there: sidecar override end --override-file=/x`},
		"it is not registered": {Facts{Fleet: fleetOf(dead)}, `node "a" is not a registered controller`},
	} {
		if got := ExplainWait(tc.facts, "a"); got.Message != tc.want {
			t.Errorf("%s: got %q, want %q", name, got.Message, tc.want)
		}
	}
}

// A node that waits reads why the turn of another one does not end.
func TestJudge_heldBy(t *testing.T) {
	b := controller("b")
	b.Presence.Reason = protocol.ReleaseTooOld
	f := fleetOf(controller("a").ready(), b)
	for work, want := range map[protocol.TurnWork]string{
		protocol.TurnWorkUnderWay:    `node "b" has the turn`,
		protocol.TurnWorkInterrupted: `node "b" has the turn; its work has failed`,
		protocol.TurnWorkDone:        `node "b" has the turn; its work is done, and it does not serve yet: ReleaseTooOld`,
	} {
		f.Turns.Held = []protocol.Turn{{Node: "b", Work: work}}
		if got := Judge(Facts{Fleet: f}, "a"); got.Message != want {
			t.Errorf("%s: got %q, want %q", work, got.Message, want)
		}
	}
}

// The only node would wait for its turn without end, so the answer says that.
func TestJudge_only(t *testing.T) {
	a, b := controller("a").ready(), controller("b").ready()
	const hint = "is the only controller; do its work without a turn"
	for _, tc := range []struct {
		fleet Facts
		want  bool
	}{
		{Facts{Fleet: fleetOf(a)}, true},
		{Facts{Fleet: fleetOf(a, b.worker())}, true},
		{Facts{Fleet: withTurns(fleetOf(a, b), 2, "b")}, false},
	} {
		if got := Judge(tc.fleet, "a"); strings.HasSuffix(got.Message, hint) != tc.want || got.Verdict != LastInService {
			t.Errorf("%v: got %+v", tc.fleet.Fleet.Records, got)
		}
	}
}

func TestNextAction(t *testing.T) {
	serves, closed := controller("a").ready(), controller("a")
	down := controller("a").ready()
	down.Presence.APIServerDown = true
	leaving := controller("a").worker()
	leaving.Node.Serves = true
	for _, tc := range []struct {
		name string
		of   Progress
		want Action
	}{
		{"under way", Progress{protocol.TurnWorkUnderWay, true, protocol.Record(*serves.cordoned()), true}, Keep},
		{"failed, and it serves", Progress{protocol.TurnWorkFailed, false, protocol.Record(*serves), true}, Keep},
		{"not known", Progress{0, false, protocol.Record(*serves), true}, Keep},
		{"done", Progress{protocol.TurnWorkDone, true, protocol.Record(*closed.cordoned()), true}, ReturnToService},
		{"people have cordoned it", Progress{protocol.TurnWorkDone, false, protocol.Record(*closed.cordoned()), true}, AwaitService},
		{"its gate is closed", Progress{protocol.TurnWorkDone, false, protocol.Record(*closed), true}, AwaitService},
		{"its kube-apiserver is down", Progress{protocol.TurnWorkDone, false, protocol.Record(*down), true}, AwaitService},
		{"it is dead", Progress{protocol.TurnWorkDone, false, protocol.Record(*serves.dead()), true}, AwaitService},
		{"its member does not answer", Progress{protocol.TurnWorkDone, false, protocol.Record(*serves), false}, AwaitService},
		{"it serves by an override alone", Progress{protocol.TurnWorkDone, false, protocol.Record(*controller("a").overridden()), true}, AwaitService},
		{"it is cordoned, and serves by an override", Progress{protocol.TurnWorkDone, true, protocol.Record(*closed.cordoned().overridden()), true}, ReturnToService},
		{"it serves", Progress{protocol.TurnWorkDone, false, protocol.Record(*serves), true}, End},
		{"it has lost the controller role", Progress{protocol.TurnWorkDone, false, protocol.Record(*controller("a").worker()), true}, End},
		{"it may still serve without the role", Progress{protocol.TurnWorkDone, false, protocol.Record(*leaving), true}, AwaitService},
		{"it has no record", Progress{protocol.TurnWorkDone, false, protocol.Record{}, true}, AwaitService},
		{"its record is corrupt", Progress{protocol.TurnWorkDone, false, protocol.Record{ID: "a", Problem: "x"}, true}, AwaitService},
	} {
		if got := NextAction(tc.of); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

// withTurns is a fleet with a limit of turns, one of which a node holds.
func withTurns(f protocol.Fleet, limit int, id protocol.NodeID) protocol.Fleet {
	f.Turns.Limit, f.Turns.Held = limit, []protocol.Turn{{Node: id}}
	return f
}

func withQueue(f protocol.Fleet, queue []protocol.TurnRequest) protocol.Fleet {
	f.Turns.Waiting = queue
	return f
}
