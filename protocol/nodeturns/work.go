package nodeturns

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// WorkVerdict says whether the work of a turn may begin.
type WorkVerdict int

// The verdicts, in the order in which they are tried.
const (
	_ WorkVerdict = iota
	// TurnOver: the node has no turn, or one of others: a command may have been paused meanwhile.
	TurnOver
	// WorkOver: the work of the turn is done, as people said, or as it was done before.
	WorkOver
	// CordonEnded: people ended the node's cordon, so that it serves.
	CordonEnded
	// OthersOut: another node stopped serving since the turn was taken, so the turn is given back.
	OthersOut
	// MayWork: the work may begin.
	MayWork
)

// MayEnd reports whether people may say that the work of a turn is done, without force. runs: its command runs, or is about to.
//
//revive:disable-next-line:flag-parameter it is a fact
func MayEnd(t protocol.Turn, runs bool) bool {
	switch {
	case t.Work == protocol.TurnWorkDone:
		return true // before the kind is asked: they only wait for its end
	case t.Kind == protocol.TurnOfServices:
		return false // its sidecar would contradict
	case t.OfCommand():
		return !runs // else its node would return to service in the middle of it
	default:
		return true
	}
}

// WorkFacts are the facts about the work of a node's turn, when the node is out of service and drained.
type WorkFacts struct {
	Fleet  protocol.Fleet
	Voters []protocol.Voter         // as for Facts
	Mine   func(protocol.Turn) bool // reports whether a turn is that work's
	Begun  bool                     // the work may be half done: it goes on
	// Out is how long the node was out of service when it took the turn, as in Facts.
	Out time.Duration
}

// WorkAnswer says whether the work of a turn may begin.
type WorkAnswer struct {
	Verdict WorkVerdict
	Turn    protocol.Turn // of the node
	Message string        // of OthersOut, for people
}

// JudgeWork decides whether the work of a node's turn may begin (docs/protocol-nodes.md#turns).
func JudgeWork(f WorkFacts, id protocol.NodeID) WorkAnswer {
	has, found := f.Fleet.Turns.Of(id)
	own, _ := f.Fleet.Record(id)
	switch {
	case !found || !f.Mine(has):
		return WorkAnswer{Verdict: TurnOver, Turn: has}
	case has.Work == protocol.TurnWorkDone:
		return WorkAnswer{Verdict: WorkOver, Turn: has}
	case own.Node.Roles.Controller && !own.Node.Cordon.On():
		return WorkAnswer{Verdict: CordonEnded, Turn: has}
	case f.Begun:
		return WorkAnswer{Verdict: MayWork, Turn: has}
	}
	if why := OthersLeft(f.Fleet, f.Voters, id, f.Out); why != "" {
		return WorkAnswer{OthersOut, has, why}
	}
	return WorkAnswer{Verdict: MayWork, Turn: has}
}

// OthersLeft says which other node stopped serving since a node took its turn, or that etcd would lose its majority now.
// Empty: the work may begin. out is how long the node was out of service when it took the turn.
func OthersLeft(fleet protocol.Fleet, voters []protocol.Voter, id protocol.NodeID, out time.Duration) string {
	f := Facts{Fleet: fleet, Voters: voters}
	if answer := f.waitsFor(id); answer.Verdict != 0 && out < Patience {
		return answer.Message
	}
	return f.withoutMajority(id)
}
