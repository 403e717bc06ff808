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
	patient bool              // its node had been out of service for long when it took the turn
}

// of is the turn of node i.
func (c turningCommand) of(i int) protocol.Turn {
	return protocol.Turn{Node: nodeID(i), Kind: protocol.TurnOfCommand, Work: c.work, BootID: "one"}
}

// judgeWork is the decision of the command of node i, which is about to begin.
func (s *turnsState) judgeWork(cfg *TurnsConfig, i int) nodeturns.WorkAnswer {
	n := &s.nodes[i]
	f := nodeturns.WorkFacts{
		Fleet: s.fleet(cfg), Voters: s.voters(cfg), Mine: func(protocol.Turn) bool { return true },
		Begun: n.resumed || cfg.Off&othersAskedAgain != 0,
	}
	if n.patient {
		f.Out = nodeturns.Patience
	}
	for j := range cfg.Nodes {
		f.Fleet.Turns.Held = append(f.Fleet.Turns.Held, s.nodes[j].turns(j).Held...)
	}
	return nodeturns.JudgeWork(f, nodeID(i))
}

// work begins the command, if it may, and ends it.
func (s *turnsState) work(cfg *TurnsConfig, i int) string {
	n := &s.nodes[i]
	verdict := s.judgeWork(cfg, i).Verdict
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
	case verdict == nodeturns.OthersOut:
		n.held, n.turningCommand = false, turningCommand{}
		if n.cordon == turnCordonTurn {
			n.cordon = turnCordonNone
		}
		return "finds that another node has stopped serving, and gives the turn back"
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
