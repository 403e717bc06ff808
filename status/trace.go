package status

import (
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// statusSource is where a status comes from, for traces.
type statusSource struct {
	at     etcd.At
	linear bool // a linearizable request of the gate, not its watch
}

// traceVerdict reports a verdict and its facts (package trace), unless
// GateConfig.Trace is nil. It needs mu, so that verdicts are reported in their
// order.
func (g *Gate) traceVerdict(v protocol.Verdict) {
	if g.cfg.Trace == nil {
		return
	}
	out := &trace.Gate{Facts: g.facts, Verdict: v}
	if g.facts.Status.Kind != protocol.StatusUnknown {
		out.ReadAt, out.Rewinds, out.Linear = g.from.at.Revision, g.from.at.Rewinds, g.from.linear
	}
	g.cfg.Trace(trace.Event{Gate: out})
}
