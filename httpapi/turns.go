package httpapi

import (
	"cmp"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// NewTurns renders the turns of a fleet.
func NewTurns(f protocol.Fleet, voters []protocol.Voter, overdue func(protocol.Turn) bool) report.Turns {
	out := report.Turns{Limit: max(f.Turns.Limit, 1), Held: []report.Turn{}, Waiting: []report.Waiting{}}
	for _, t := range f.Turns.Held {
		out.Held = append(out.Held, report.Turn{
			Node: string(t.Node), Kind: string(t.Kind), Since: report.At(t.Since), Until: report.At(t.Until), Overdue: overdue(t),
			Command: t.Command, Message: t.Message, By: t.By, Work: t.Work.String(),
			Problem: cmp.Or(f.TurnProblem(t), f.TurnWait(t)), Remedy: f.TurnRemedy(t),
		})
	}
	facts := nodeturns.Facts{Fleet: f, Voters: voters}
	for _, w := range facts.Queue() {
		answer := nodeturns.ExplainWait(facts, w.Node)
		out.Waiting = append(out.Waiting, report.Waiting{
			Node: string(w.Node), Since: report.At(w.Since), Message: w.Message, By: w.By,
			WaitsFor: string(answer.For), Reason: answer.Message,
		})
	}
	return out
}

// turnsReport finds overdue turns in the warnings: a report is rendered without a clock.
func (s Snapshot) turnsReport() report.Turns {
	out := NewTurns(s.Fleet, s.Cluster.Voters, func(t protocol.Turn) bool {
		return slices.ContainsFunc(s.Warnings, func(w protocol.Warning) bool {
			return w.Reason == warn.TurnOverdue && w.Subject == string(t.Node)
		})
	})
	for i := range out.Held {
		out.Held[i].Remedy = s.pasteable(out.Held[i].Remedy)
	}
	return out
}
