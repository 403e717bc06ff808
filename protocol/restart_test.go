package protocol

import "testing"

// A node that serves takes a turn, unless it is alone. In its turn, it waits until clients have left.
func TestJudgeRestart(t *testing.T) {
	for _, turn := range []ServiceTurn{NoServiceTurn, ServiceTurnTaken, ServiceTurnDrained} {
		for n := range 8 {
			f := RestartFacts{Turn: turn, Serving: n&1 != 0, GateClosed: n&2 != 0, Alone: n&4 != 0}
			want := RestartNow
			if turn == ServiceTurnTaken {
				want = RestartDrains
			} else if turn == NoServiceTurn && f.Serving && !f.GateClosed && !f.Alone {
				want = RestartInTurn
			}
			if got := JudgeRestart(f); got != want {
				t.Errorf("%+v: got %d, want %d", f, got, want)
			}
		}
	}
}
