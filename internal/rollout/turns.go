package rollout

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// The node that has a turn is out of service, or its sidecar is restarting, because of the work of the turn. In a rollout
// that is under way, that work is a step of the rollout: the node is out for no other reason.

// turnOf returns the turn of a node whose work goes on. Work that failed ends only when people repair it.
func (in Input) turnOf(id protocol.NodeID) (protocol.Turn, bool) {
	t, works := in.Fleet.Turns.Of(id)
	return t, works && !t.Work.HasFailed()
}

// finishTurns assumes that the work of each turn succeeds: the node is alive, and its cordon ends with the turn.
// A node that has the bundle serves at once, another one after its move.
func (s *simulation) finishTurns() {
	for _, r := range s.fleet.Records {
		if _, works := s.in.turnOf(r.ID); !works || !isController(r) {
			continue
		}
		r.Alive = true
		if r.Node.Cordon.Turn {
			r.Node.Cordon = protocol.Cordon{}
		}
		if !s.mustRestart(r) {
			s.gates[r.ID].stuck = false
		}
	}
	s.judgeGates()
}

// turnNotes describes the turns that the rollout counts as its own.
func turnNotes(in Input, f Forecast) []string {
	if goesForward(in, f) {
		return nil // a turn is an obstacle
	}
	own := "assumed to be its part of this rollout"
	if in.Fleet.Rollback.On() && in.Fleet.Rollback.To == in.Bundle.Version.Release {
		own = "its part of this rollback"
	}
	var out []string
	for _, t := range in.Fleet.Turns.Held {
		if _, works := in.turnOf(t.Node); works {
			out = append(out, fmt.Sprintf("%s: %s", in.Fleet.TurnText(t), own))
		}
	}
	return out
}
