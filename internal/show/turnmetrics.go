package show

import (
	"time"

	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/protocol"
)

func (s *Show) registerTurns(in metric.Set) {
	in.GaugeFunc("lockstep_fleet_turns_held",
		"Nodes that have a turn. If it stays above 0 for longer than your work takes, see sidecar turn status.",
		func() float64 { return float64(len(s.Fleet.Get().Turns.Held)) })
	in.GaugeFunc("lockstep_fleet_turns_waiting",
		"Nodes that wait for a turn. /status has the reasons.",
		func() float64 { return float64(len(s.Fleet.Get().Turns.Waiting)) })
	in.GaugeFunc("lockstep_fleet_turns_overdue",
		"Turns that are over their limit. No other node gets one until people end them: see sidecar turn status.",
		func() float64 { return float64(overdueTurns(s.Fleet.Get().Turns, time.Now())) })
}

func overdueTurns(turns protocol.Turns, now time.Time) (n int) {
	for _, t := range turns.Held {
		if t.Overdue(now) {
			n++
		}
	}
	return n
}
