package nodeservices

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// A node that serves takes a turn, unless it is alone. In its turn, it waits until clients have left.
func TestJudgeRestart(t *testing.T) {
	for _, draining := range []bool{false, true} {
		for n := range 8 {
			f := RestartFacts{Draining: draining, Serving: n&1 != 0, Closed: time.Duration(n>>1&1) * TurnDrain, Alone: n&4 != 0}
			want := RestartNow
			switch {
			case !f.Serving:
			case draining:
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

// A sidecar that stops restarts nothing, whatever else holds.
func TestJudgeRestart_stops(t *testing.T) {
	for _, f := range []RestartFacts{{}, {Serving: true, Alone: true}, {Serving: true, Closed: time.Hour}, {Serving: true, Draining: true}} {
		f.Stops = true
		if got := JudgeRestart(f); got != RestartNever {
			t.Errorf("%+v: got %d, want %d", f, got, RestartNever)
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

// A kube-apiserver that hangs never shows that the address has left the Service: the gate, closed for long,
// decides alone. The caller judges again when the answer changes with the time.
func TestJudgeRestart_addressNotSeenToLeave(t *testing.T) {
	const limit = TurnDrain + MaxAwaitAddress
	for closed, want := range map[time.Duration]Restart{0: RestartDrains, TurnDrain: RestartDrains, limit - 1: RestartDrains, limit: RestartNow} {
		if got := JudgeRestart(RestartFacts{Draining: true, Serving: true, Closed: closed}); got != want {
			t.Errorf("closed for %s: got %d, want %d", closed, got, want)
		}
	}
	for closed, want := range map[time.Duration]time.Duration{0: 0, 1: TurnDrain - 1, TurnDrain: MaxAwaitAddress, limit - 1: 1, limit: 0, limit + 1: 0} {
		if got := NextJudgement(closed); got != want {
			t.Errorf("closed for %s: got %s, want %s", closed, got, want)
		}
	}
}

// A node is out of service for the whole drain before its services restart.
func TestDraining(t *testing.T) {
	for out, want := range map[time.Duration]bool{0: true, TurnDrain - time.Millisecond: true, TurnDrain: false, time.Hour: false} {
		if got := Draining(out); got != want {
			t.Errorf("after %s: got %t, want %t", out, got, want)
		}
	}
}

// A node asks for a turn while services wait, and ends it only when they are ready.
func TestNextTurnAction(t *testing.T) {
	held := TurnFacts{Held: true, Work: protocol.TurnWorkUnderWay, Cordoned: true}
	with := func(change func(*TurnFacts)) TurnFacts {
		f := held
		change(&f)
		return f
	}
	for name, tt := range map[string]struct {
		facts TurnFacts
		want  TurnAction
	}{
		"nothing has changed":           {TurnFacts{Ready: true}, RestTurn},
		"a service waits":               {TurnFacts{Pending: true}, AskTurn},
		"no other controller":           {TurnFacts{Pending: true, Alone: true}, RestTurn},
		"the sidecar stops":             {TurnFacts{Pending: true, Stops: true}, RestTurn},
		"people have a turn":            {TurnFacts{Pending: true, Other: true}, RestTurn},
		"it is drained":                 {with(func(f *TurnFacts) { f.Pending = true }), RestTurn},
		"another node is out":           {with(func(f *TurnFacts) { f.Pending, f.OthersOut = true, true }), GiveBackTurn},
		"another one, and it has begun": {with(func(f *TurnFacts) { f.OthersOut = true }), RestTurn},
		"people ended the cordon":       {with(func(f *TurnFacts) { f.Pending, f.Cordoned = true, false }), GiveBackTurn},
		"it starts":                     {held, RestTurn},
		"it starts, without a cordon":   {with(func(f *TurnFacts) { f.Cordoned = false }), RestTurn},
		"it does not become ready":      {with(func(f *TurnFacts) { f.Failing = true }), FailTurn},
		"that is recorded":              {with(func(f *TurnFacts) { f.Failing, f.Work = true, protocol.TurnWorkFailed }), RestTurn},
		"it was repaired":               {with(func(f *TurnFacts) { f.Work = protocol.TurnWorkFailed }), ContinueTurn},
		"it is ready":                   {with(func(f *TurnFacts) { f.Ready = true }), FinishTurn},
		"it is ready after all":         {with(func(f *TurnFacts) { f.Ready, f.Work = true, protocol.TurnWorkFailed }), FinishTurn},
		"it returns":                    {with(func(f *TurnFacts) { f.Ready, f.Work, f.Cordoned = true, protocol.TurnWorkDone, false }), FinishTurn},
		"it broke as it returned":       {with(func(f *TurnFacts) { f.Work, f.Cordoned = protocol.TurnWorkDone, false }), FinishTurn},
		"it broke, and changed again":   {with(func(f *TurnFacts) { f.Work, f.Cordoned, f.Pending = protocol.TurnWorkDone, false, true }), GiveBackTurn},
		"it changed again, and is bad":  {with(func(f *TurnFacts) { f.Work, f.Failing = protocol.TurnWorkDone, true }), FailTurn},
		"it has lost the role":          {with(func(f *TurnFacts) { f.NoRole = true }), FinishTurn},
		"it failed, and lost the role":  {with(func(f *TurnFacts) { f.NoRole, f.Failing, f.Work = true, true, protocol.TurnWorkFailed }), FinishTurn},
		"one waits behind a failed one": {with(func(f *TurnFacts) { f.Pending, f.Failing = true, true }), RestTurn},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NextTurnAction(tt.facts); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
