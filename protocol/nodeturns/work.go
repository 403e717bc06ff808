package nodeturns

import "github.com/lockstep-dev/lockstep/protocol"

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

// JudgeWork decides whether the work of a node's turn may begin, when the node is out of service and drained
// (docs/protocol-nodes.md#turns). mine reports whether a turn is that work's. It returns the turn that the node has.
func JudgeWork(f protocol.Fleet, id protocol.NodeID, mine func(protocol.Turn) bool) (WorkVerdict, protocol.Turn) {
	has, found := f.Turns.Of(id)
	own, _ := f.Record(id)
	switch {
	case !found || !mine(has):
		return TurnOver, has
	case has.Work == protocol.TurnWorkDone:
		return WorkOver, has
	case own.Node.Roles.Controller && !own.Node.Cordon.On():
		return CordonEnded, has
	default:
		return MayWork, has
	}
}
