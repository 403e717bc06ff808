package show

import (
	"time"

	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/protocol"
)

func (s *Show) registerTurns(in metric.Set) {
	in.GaugeFunc("lockstep_fleet_turns_held",
		"Nodes that hold a turn. If it stays above 0 for longer than your work takes, see sidecar turn status.",
		func() float64 { return float64(len(s.Fleet.Get().Turns.Held)) })
	in.GaugeFunc("lockstep_fleet_turns_waiting",
		"Nodes that wait for a turn. /status lists the reasons.",
		func() float64 { return float64(len(s.Fleet.Get().Turns.Waiting)) })
	in.GaugeFunc("lockstep_fleet_turns_overdue",
		"Turns that are over their limit. No other node gets one until people end them: see sidecar turn status.",
		func() float64 {
			now := time.Now()
			return count(s.Fleet.Get().Turns.Held, func(t protocol.Turn) bool { return t.Overdue(now) })
		})
	in.GaugeFunc("lockstep_fleet_controllers_cordoned_off",
		"Controllers that are cordoned or in a turn, and not alive: planned time out of service.",
		func() float64 { return cordonedOff(s.Fleet.Get(), time.Now()) })
}

// cordonedOff counts the nodes that Prometheus does not reach any more, and that people took out of service.
func cordonedOff(f protocol.Fleet, now time.Time) float64 {
	return count(f.Records, func(r *protocol.Record) bool {
		return r.Counts() && !r.Alive && r.Node.Cordon.On() && !r.Node.Cordon.Over(now)
	})
}
