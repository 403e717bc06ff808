package protocol

import (
	"testing"
	"time"
)

// A node that serves takes a turn, unless it is alone. In its turn, it waits until clients have left.
func TestJudgeRestart(t *testing.T) {
	for _, turn := range []ServiceTurn{NoServiceTurn, ServiceTurnTaken, ServiceTurnDrained} {
		for n := range 8 {
			f := RestartFacts{Turn: turn, Serving: n&1 != 0, Closed: time.Duration(n>>1&1) * TurnDrain, Alone: n&4 != 0}
			want := RestartNow
			switch {
			case !f.Serving:
			case turn == ServiceTurnTaken:
				want = RestartDrains
			case f.Closed == 0 && !f.Alone: // also in a turn that was drained: the gate has opened since
				want = RestartInTurn
			}
			if got := JudgeRestart(f); got != want {
				t.Errorf("%+v: got %d, want %d", f, got, want)
			}
		}
	}
}

// A gate that just closed may still be used by clients, also of a node that is alone.
func TestJudgeRestart_justClosed(t *testing.T) {
	for _, alone := range []bool{false, true} {
		if got := JudgeRestart(RestartFacts{Serving: true, Closed: TurnDrain - 1, Alone: alone}); got != RestartDrains {
			t.Errorf("alone %t: got %d, want %d", alone, got, RestartDrains)
		}
	}
}

// A node is out of service for the whole drain before its services restart.
func TestServiceTurnAfter(t *testing.T) {
	for out, want := range map[time.Duration]ServiceTurn{
		0: ServiceTurnTaken, TurnDrain - time.Millisecond: ServiceTurnTaken, TurnDrain: ServiceTurnDrained, time.Hour: ServiceTurnDrained,
	} {
		if got := ServiceTurnAfter(out); got != want {
			t.Errorf("after %s: got %d, want %d", out, got, want)
		}
	}
}

// A node asks for a turn while services wait, and ends it only when they are ready.
func TestNextServiceTurnAction(t *testing.T) {
	held := ServiceTurnFacts{Held: true, Work: TurnWorkUnderWay, Cordoned: true}
	with := func(change func(*ServiceTurnFacts)) ServiceTurnFacts {
		f := held
		change(&f)
		return f
	}
	for name, tt := range map[string]struct {
		facts ServiceTurnFacts
		want  ServiceTurnAction
	}{
		"nothing has changed":           {ServiceTurnFacts{Ready: true}, RestServiceTurn},
		"a service waits":               {ServiceTurnFacts{Pending: true}, AskServiceTurn},
		"no other controller":           {ServiceTurnFacts{Pending: true, Alone: true}, RestServiceTurn},
		"people have a turn":            {ServiceTurnFacts{Pending: true, Other: true}, RestServiceTurn},
		"it is drained":                 {with(func(f *ServiceTurnFacts) { f.Pending = true }), RestServiceTurn},
		"people ended the cordon":       {with(func(f *ServiceTurnFacts) { f.Pending, f.Cordoned = true, false }), GiveBackServiceTurn},
		"it starts":                     {held, RestServiceTurn},
		"it starts, without a cordon":   {with(func(f *ServiceTurnFacts) { f.Cordoned = false }), RestServiceTurn},
		"it does not become ready":      {with(func(f *ServiceTurnFacts) { f.Failing = true }), FailServiceTurn},
		"that is recorded":              {with(func(f *ServiceTurnFacts) { f.Failing, f.Work = true, TurnWorkFailed }), RestServiceTurn},
		"it was repaired":               {with(func(f *ServiceTurnFacts) { f.Work = TurnWorkFailed }), ContinueServiceTurn},
		"it is ready":                   {with(func(f *ServiceTurnFacts) { f.Ready = true }), FinishServiceTurn},
		"it is ready after all":         {with(func(f *ServiceTurnFacts) { f.Ready, f.Work = true, TurnWorkFailed }), FinishServiceTurn},
		"it returns":                    {with(func(f *ServiceTurnFacts) { f.Ready, f.Work, f.Cordoned = true, TurnWorkDone, false }), FinishServiceTurn},
		"it broke as it returned":       {with(func(f *ServiceTurnFacts) { f.Work, f.Cordoned = TurnWorkDone, false }), FinishServiceTurn},
		"it broke, and changed again":   {with(func(f *ServiceTurnFacts) { f.Work, f.Cordoned, f.Pending = TurnWorkDone, false, true }), GiveBackServiceTurn},
		"it changed again, and is bad":  {with(func(f *ServiceTurnFacts) { f.Work, f.Failing = TurnWorkDone, true }), FailServiceTurn},
		"one waits behind a failed one": {with(func(f *ServiceTurnFacts) { f.Pending, f.Failing = true, true }), RestServiceTurn},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NextServiceTurnAction(tt.facts); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
