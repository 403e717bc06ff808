package model

import (
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// This file models sidecar turn, which takes a turn for a command: it may be killed, people may end the cordon or the turn in
// the meantime, and type the command again.

// turningCommand is the command of a node's turn.
type turningCommand struct {
	work    protocol.TurnWork // as in the turn
	runs    bool              // sidecar turn runs, and its key exists
	resumed bool              // it was typed again in the turn
}

// of is the turn of node i.
func (c turningCommand) of(i int) protocol.Turn {
	return protocol.Turn{Node: nodeID(i), Kind: protocol.TurnOfCommand, Work: c.work, BootID: "one"}
}

// work begins the command, if it may, and ends it.
func (s *turnsState) work(cfg *TurnsConfig, i int) string {
	n := &s.nodes[i]
	f := s.fleet(cfg)
	f.Turns = n.turns(i)
	verdict, _ := nodeturns.JudgeWork(f, nodeID(i), func(protocol.Turn) bool { return true })
	switch {
	case verdict == nodeturns.TurnOver && cfg.Off&turnReread == 0:
		n.runs, n.resumed = false, false
		return "finds that its turn has ended"
	case verdict == nodeturns.CordonEnded && cfg.Off&uncordonedStops == 0:
		if n.runs = false; n.resumed {
			n.resumed = false
			return "finds that its cordon has ended"
		}
		n.held, n.turningCommand = false, turningCommand{}
		return "finds that its cordon has ended, and gives the turn back"
	}
	n.broken = false
	if n.held {
		n.work = protocol.TurnWorkDone
	}
	return "has done its work"
}

// judge lets the sidecar of node i judge the command, when it was silent for long.
func (n *turningNode) judge(i int) string {
	work := nodeturns.JudgeCommand(nodeturns.CommandFacts{Turn: n.of(i), Runs: n.runs, Silent: nodeturns.Silence, BootID: "one"})
	if work == n.work {
		return ""
	}
	if n.work = work; work == protocol.TurnWorkInterrupted {
		return "shows that its command does not run any more"
	}
	return "shows that its command runs again"
}

// acts reports whether a program of the node takes the next action of its turn: the one that took it, or its sidecar.
func (n *turningNode) acts(cfg *TurnsConfig, i int) bool {
	return n.runs || cfg.Off&orphanEnds == 0 && nodeturns.Finishes(n.of(i), "one")
}

// retype lets people end the cordon of a turn, type its command again, and say that its work is done.
func (s *turnsState) retype(cfg *TurnsConfig, m turnMove, i int) string {
	n := &s.nodes[i]
	switch {
	case m == turnUncordonInTurn && s.cordons > 0 && n.cordon == turnCordonTurn:
		s.cordons--
		n.cordon = turnCordonNone
		return "is uncordoned in its turn"
	case m == turnTypeAgain && n.up && n.held && n.work.HasFailed() && !n.runs:
		n.runs, n.resumed = true, true
		return "has its command typed again"
	case m == turnEnd && n.held && n.work != protocol.TurnWorkDone && (nodeturns.MayEnd(n.of(i), n.runs) || cfg.Off&runningKept != 0):
		n.work = protocol.TurnWorkDone
		return "has a turn that is done: people say so"
	}
	return ""
}
