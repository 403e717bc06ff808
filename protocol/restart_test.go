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
			if turn == ServiceTurnTaken {
				want = RestartDrains
			} else if turn == NoServiceTurn && f.Serving && f.Closed == 0 && !f.Alone {
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
