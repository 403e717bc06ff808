package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TurnsResult is the result of a search.
type TurnsResult struct {
	Found
	Taken bool // a turn was taken in some state
}

// CheckTurns visits every state that cfg can reach. It stops at the first violation.
func CheckTurns(cfg *TurnsConfig) (r TurnsResult) {
	r.Found = explore(smallWorld[turnsState]{
		first: initialTurns(cfg), moves: int(turnMoves), nodes: cfg.Nodes, add: reached[turnsState](),
		move: func(before, next *turnsState, m, i int) (text, name, why string) {
			what := next.apply(cfg, turnMove(m), i)
			if what == "" {
				return "", "", ""
			}
			r.Taken = r.Taken || next.nodes[i].held
			name, why = next.brokenBy(cfg, before, turnMove(m), i)
			return fmt.Sprintf("%s %s", nodeID(i), what), name, why
		},
		future: func(s *turnsState) (name, why string) { return s.stuck(cfg) },
	})
	return r
}

// brokenBy returns the first invariant that a move of node i breaks, and why.
func (s *turnsState) brokenBy(cfg *TurnsConfig, before *turnsState, m turnMove, i int) (name, why string) {
	now, was := &s.nodes[i], &before.nodes[i]
	held := countOf(s.nodes[:], func(n *turningNode) bool { return n.held })
	took := now.held && !was.held
	own := before.record(i)
	switch {
	case held > cfg.Limit:
		return "FewTurns", fmt.Sprintf("%d nodes have a turn", held)
	case took && own.InService() && before.othersServing(cfg, i) == 0:
		return "LeavesOne", fmt.Sprintf("the turn of %s takes the last node in service", nodeID(i))
	case now.granted && !was.granted && before.losesMajority(cfg, i):
		return "LeavesMajority", fmt.Sprintf("without %s, etcd has no majority", nodeID(i))
	case now.granted && !was.granted && before.allServe(cfg) && before.isBehind(i):
		return "FirstComes", fmt.Sprintf("%s gets the turn before a node that has waited for longer", nodeID(i))
	case m == turnWork && now.runs && !was.held:
		return "OutAtWork", fmt.Sprintf("%s works, and its turn has ended", nodeID(i))
	case m == turnWork && now.runs && !was.roleless && was.cordon == turnCordonNone:
		return "OutAtWork", fmt.Sprintf("%s works, and its cordon has ended", nodeID(i))
	case m == turnWork && now.runs && !was.resumed && !was.patient && before.othersOut(cfg, i):
		return "OthersServe", fmt.Sprintf("%s works, and another node has stopped serving", nodeID(i))
	case m == turnEnd && was.runs:
		return "OutAtWork", fmt.Sprintf("%s returns to service while its command runs", nodeID(i))
	case m == turnCordonOver && was.held && was.work != protocol.TurnWorkDone:
		return "OutAtWork", fmt.Sprintf("%s returns to service before its work is done", nodeID(i))
	case was.held && !now.held && m != turnForce && m != turnRemove && m != turnWork && !s.servesByItself(i) &&
		(!was.roleless || was.mayServe):
		return "ServesAgain", fmt.Sprintf("the turn of %s ends, and it does not serve", nodeID(i))
	}
	return "", ""
}

// othersServing counts other nodes that serve, according to the store.
func (s *turnsState) othersServing(cfg *TurnsConfig, i int) (n int) {
	for j := range cfg.Nodes {
		if j != i && !s.nodes[j].held && s.servesByItself(j) {
			n++
		}
	}
	return n
}

// othersOut reports whether another controller without a turn does not serve, according to the store.
func (s *turnsState) othersOut(cfg *TurnsConfig, i int) bool {
	for j := range cfg.Nodes {
		n := &s.nodes[j]
		serves := n.cordon == turnCordonNone && (s.servesByItself(j) || n.forced)
		if j != i && !n.held && !n.unregistered() && !n.roleless && !serves {
			return true
		}
	}
	return false
}

// servesByItself reports whether a node serves, according to the store, and not by an override alone.
func (s *turnsState) servesByItself(i int) bool {
	r := s.record(i)
	return r.Serves() && r.Presence.Reason != protocol.Overridden
}

func (s *turnsState) allServe(cfg *TurnsConfig) bool {
	return countOf(s.nodes[:], func(n *turningNode) bool {
		return n.up && n.alive && n.ready && n.cordon == turnCordonNone && n.member == cfg.Members
	}) == cfg.Nodes
}

// isBehind reports whether another node waits longer.
func (s *turnsState) isBehind(i int) bool {
	return countOf(s.nodes[:], func(n *turningNode) bool { return n.place > 0 && n.place < s.nodes[i].place }) > 0
}

// losesMajority reports whether etcd loses its majority with a node.
func (s *turnsState) losesMajority(cfg *TurnsConfig, i int) bool {
	if n := &s.nodes[i]; !cfg.Members || !n.member || !n.up {
		return false
	}
	others := countOf(s.nodes[:], func(n *turningNode) bool { return n.member && n.up && !n.held }) - 1
	return others < protocol.Majority(cfg.Nodes)
}

// turnRounds is more than all nodes need.
const turnRounds = 30

// repair lets people do what they read of a turn that has failed, and ask for a turn of a node that is broken.
func (s *turnsState) repair(cfg *TurnsConfig, i int) {
	switch n := &s.nodes[i]; {
	case n.held && n.work == protocol.TurnWorkDone:
		n.broken = false
	case n.held && n.work.HasFailed() && n.cordon == turnCordonNone:
		s.apply(cfg, turnEnd, i)
	case n.held && n.work.HasFailed():
		s.apply(cfg, turnTypeAgain, i)
	case n.broken:
		s.apply(cfg, turnStart, i)
		s.apply(cfg, turnAsk, i)
	}
}

// stuck says that a node that waits does not get its turn, or does not end it, when faults stop,
// all nodes run, and people ended their cordons and overrides. Those that are broken wait for a
// turn too, to be repaired in it. One that breaks after its work is repaired by people.
func (s *turnsState) stuck(cfg *TurnsConfig) (name, why string) {
	st := *s
	st.faults, st.cordons, st.forces, st.overrides, st.kills = 0, 0, 0, 0, 0
	for range turnRounds {
		for i := range cfg.Nodes {
			st.repair(cfg, i)
		}
		for _, m := range []turnMove{
			turnStart, turnMemberStart, turnUncordon, turnOverrideEnd, turnReport,
			turnDecide, turnDecidePatiently, turnWrite, turnWork, turnJudge, turnAct,
		} {
			for i := range cfg.Nodes {
				st.apply(cfg, m, i)
			}
		}
		if countOf(st.nodes[:], func(n *turningNode) bool { return n.place > 0 || n.held }) == 0 {
			return "", ""
		}
	}
	return "EachInTurn", "a node waits for its turn, or has it, for ever"
}
