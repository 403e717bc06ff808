package nodeturns

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// People may not call work done that runs.
func TestMayEnd(t *testing.T) {
	for _, tc := range []struct {
		kind       protocol.TurnKind
		work       protocol.TurnWork
		runs, want bool
	}{
		{protocol.TurnOfCommand, protocol.TurnWorkUnderWay, true, false},
		{protocol.TurnOfCommand, protocol.TurnWorkUnderWay, false, true},
		{protocol.TurnOfCommand, protocol.TurnWorkFailed, true, false}, // typed again
		{protocol.TurnOfCommand, protocol.TurnWorkFailed, false, true},
		{protocol.TurnOfCommand, protocol.TurnWorkInterrupted, false, true},
		{protocol.TurnOfCommand, protocol.TurnWorkDone, true, true},
		{protocol.TurnOfReboot, protocol.TurnWorkUnderWay, true, false},
		{protocol.TurnOfPeople, protocol.TurnWorkUnderWay, true, true}, // another command waits
		{protocol.TurnOfAgent, protocol.TurnWorkUnderWay, false, true},
		{protocol.TurnOfServices, protocol.TurnWorkUnderWay, false, false},
		{protocol.TurnOfServices, protocol.TurnWorkFailed, false, false},
		{protocol.TurnOfServices, protocol.TurnWorkDone, false, true},
	} {
		if got := MayEnd(protocol.Turn{Node: "a", Kind: tc.kind, Work: tc.work}, tc.runs); got != tc.want {
			t.Errorf("%+v: got %t", tc, got)
		}
	}
}

func TestJudgeWork(t *testing.T) {
	turn := protocol.Turn{Node: "a", Kind: protocol.TurnOfCommand}
	done := turn
	done.Work = protocol.TurnWorkDone
	agents := turn
	agents.Kind = protocol.TurnOfAgent
	registered := func(serves, cordoned bool) []*protocol.Record {
		r := &protocol.Record{ID: "a", Node: protocol.Node{ID: "a", Roles: protocol.Roles{Controller: serves}}}
		if cordoned {
			r.Node.Cordon = protocol.Cordon{By: "test"}
		}
		return []*protocol.Record{r}
	}
	for name, tc := range map[string]struct {
		held    []protocol.Turn
		records []*protocol.Record
		want    WorkVerdict
	}{
		"its turn":                  {[]protocol.Turn{turn}, registered(true, true), MayWork},
		"no turn":                   {nil, registered(true, true), TurnOver},
		"a turn of others":          {[]protocol.Turn{agents}, registered(true, true), TurnOver},
		"done":                      {[]protocol.Turn{done}, registered(true, true), WorkOver},
		"uncordoned":                {[]protocol.Turn{turn}, registered(true, false), CordonEnded},
		"uncordoned, and done":      {[]protocol.Turn{done}, registered(true, false), WorkOver},
		"without the role":          {[]protocol.Turn{turn}, registered(false, false), MayWork},
		"its record does not exist": {[]protocol.Turn{turn}, nil, MayWork},
	} {
		t.Run(name, func(t *testing.T) {
			f := protocol.Fleet{Records: tc.records, Turns: protocol.Turns{Held: tc.held}}
			got := JudgeWork(WorkFacts{Fleet: f, Mine: turn.Same}, "a")
			if got.Verdict != tc.want || got.Turn.Kind == "" && len(tc.held) > 0 {
				t.Errorf("got %+v, want %d", got, tc.want)
			}
		})
	}
}

// Another node may stop serving after the turn was taken, and before its work begins.
func TestJudgeWork_othersOut(t *testing.T) {
	turn := protocol.Turn{Node: "a", Kind: protocol.TurnOfCommand}
	own, b, c := controller("a").cordoned(), controller("b").ready(), controller("c").ready()
	voters := []protocol.Voter{{Name: "a", Healthy: true}, {Name: "b", Healthy: true}, {Name: "c"}}
	second := protocol.Turn{Node: "c", Kind: protocol.TurnOfPeople}
	for name, tc := range map[string]struct {
		fleet  protocol.Fleet
		others []protocol.Turn
		facts  WorkFacts
		want   WorkVerdict
		says   string
	}{
		"all others serve":               {fleetOf(own, b, c), nil, WorkFacts{}, MayWork, ""},
		"another one is dead":            {fleetOf(own, b, c.dead()), nil, WorkFacts{}, OthersOut, `node "c" is dead`},
		"another one is cordoned":        {fleetOf(own, b, c.cordoned()), nil, WorkFacts{}, OthersOut, `node "c" is cordoned`},
		"the gate of another one closed": {fleetOf(own, b, controller("c")), nil, WorkFacts{}, OthersOut, `node "c" is not ready`},
		"another one has a turn":         {fleetOf(own, b, c.cordoned()), []protocol.Turn{second}, WorkFacts{}, MayWork, ""},
		"a voter is down":                {fleetOf(own, b, c), nil, WorkFacts{Voters: voters}, OthersOut, "etcd would lose its majority"},
		"the work goes on":               {fleetOf(own, b, c.dead()), nil, WorkFacts{Voters: voters, Begun: true}, MayWork, ""},
		"it was out for long":            {fleetOf(own, b, c.dead()), nil, WorkFacts{Out: Patience}, MayWork, ""},
		"it was out for a while":         {fleetOf(own, b, c.dead()), nil, WorkFacts{Out: Patience - 1}, OthersOut, `node "c" is dead`},
		"for long, and a voter is down":  {fleetOf(own, b, c), nil, WorkFacts{Out: Patience, Voters: voters}, OthersOut, "etcd would lose its majority"},
		"uncordoned meanwhile":           {fleetOf(controller("a").ready(), b, c.dead()), nil, WorkFacts{}, CordonEnded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := tc.facts
			f.Fleet, f.Mine = tc.fleet, turn.Same
			f.Fleet.Turns.Held = append([]protocol.Turn{turn}, tc.others...)
			if got := JudgeWork(f, "a"); got.Verdict != tc.want || !strings.Contains(got.Message, tc.says) || (got.Message == "") != (tc.says == "") {
				t.Errorf("got %+v, want %d with %q", got, tc.want, tc.says)
			}
		})
	}
}
