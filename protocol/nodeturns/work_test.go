package nodeturns

import (
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
			got, has := JudgeWork(f, "a", turn.Same)
			if got != tc.want || has.Kind == "" && len(tc.held) > 0 {
				t.Errorf("got %d with %v, want %d", got, has, tc.want)
			}
		})
	}
}
