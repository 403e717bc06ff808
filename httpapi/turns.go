package httpapi

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TurnsReport lists the nodes that hold a turn, and the nodes that wait (docs/protocol.md#turns).
type TurnsReport struct {
	Limit   int             `json:"limit"` // how many nodes may hold one
	Held    []TurnReport    `json:"held"`
	Waiting []WaitingReport `json:"waiting"` // the first one first
}

// TurnReport is the turn of a node.
type TurnReport struct {
	Node    string     `json:"node"`
	Kind    string     `json:"kind"` // command, reboot, people, services or fleetlock
	Since   *time.Time `json:"since"`
	Until   *time.Time `json:"until"` // its limit; null: none
	Overdue bool       `json:"overdue"`
	Command string     `json:"command"` // empty: none
	Message string     `json:"message"` // why, in people's words
	By      string     `json:"by"`
	Work    string     `json:"work"`   // UnderWay, Failed or Done
	Remedy  string     `json:"remedy"` // the command that helps
}

// WaitingReport is a node that waits for a turn.
type WaitingReport struct {
	Node     string     `json:"node"`
	Since    *time.Time `json:"since"`
	Message  string     `json:"message"` // the purpose, in people's words
	By       string     `json:"by"`
	WaitsFor string     `json:"waitsFor"` // the node; empty: no single one
	Reason   string     `json:"reason"`   // why it waits; empty: it is about to get the turn
}

// NewTurnsReport renders the turns of a fleet.
func NewTurnsReport(f protocol.Fleet, voters []protocol.TurnVoter, overdue func(protocol.Turn) bool) TurnsReport {
	out := TurnsReport{Limit: max(f.Turns.Limit, 1), Held: []TurnReport{}, Waiting: []WaitingReport{}}
	for _, t := range f.Turns.Held {
		out.Held = append(out.Held, TurnReport{
			Node: string(t.Node), Kind: string(t.Kind), Since: timestamp(t.Since), Until: timestamp(t.Until), Overdue: overdue(t),
			Command: t.Command, Message: t.Message, By: t.By, Work: t.Work.String(), Remedy: t.Remedy(),
		})
	}
	facts := f.TurnFacts(voters)
	for _, w := range facts.Queue() {
		answer := protocol.JudgeTurn(facts, w.Node)
		out.Waiting = append(out.Waiting, WaitingReport{
			Node: string(w.Node), Since: timestamp(w.Since), Message: w.Message, By: w.By,
			WaitsFor: string(answer.For), Reason: answer.Message,
		})
	}
	return out
}

// turnsReport finds overdue turns in the warnings: a report is rendered without a clock.
func (s Snapshot) turnsReport() TurnsReport {
	out := NewTurnsReport(s.Fleet, protocol.TurnVoters(s.Cluster.voters()), func(t protocol.Turn) bool {
		return slices.ContainsFunc(s.Warnings, func(w protocol.Warning) bool {
			return w.Reason == protocol.TurnOverdue && w.Subject == string(t.Node)
		})
	})
	for i := range out.Held {
		out.Held[i].Remedy = s.pasteable(out.Held[i].Remedy)
	}
	return out
}
