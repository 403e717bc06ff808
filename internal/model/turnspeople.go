package model

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

// turningLeave is the part of a node that has left the controllers.
type turningLeave struct {
	gone     bool // people have removed it: it has no record, and never starts again
	expired  bool // a leader has deleted its record: it has none until it starts again
	roleless bool // people took the controller role from it
	mayServe bool // its sidecar has not closed the gate for that yet
}

// node is the value of a node's record.
func (l turningLeave) node(i int) protocol.Node {
	return protocol.Node{ID: nodeID(i), Roles: protocol.Roles{Controller: !l.roleless}, Serves: l.mayServe}
}

// unregistered reports whether a node has no record.
func (l turningLeave) unregistered() bool { return l.gone || l.expired }

func (s *turnsState) fleet(cfg *TurnsConfig) (f protocol.Fleet) {
	for i := range cfg.Nodes {
		if !s.nodes[i].unregistered() {
			f.Records = append(f.Records, s.record(i))
		}
	}
	return f
}

// deleteExpired lets a leader delete the record of a dead node, which has expired, as it decides for ephemeral ones.
func (s *turnsState) deleteExpired(cfg *TurnsConfig, i int) string {
	n := &s.nodes[i]
	if s.expires == 0 || n.alive || n.unregistered() {
		return ""
	}
	r := s.record(i)
	r.Node.Ephemeral, r.Node.ExpireAfter, r.Gone = true, time.Minute, time.Minute
	f := protocol.Fleet{Records: []*protocol.Record{r}}
	if n.held && cfg.Off&turnKeepsRecord == 0 {
		f.Turns.Held = []protocol.Turn{{Node: nodeID(i), Kind: protocol.TurnOfCommand}}
	}
	if len(noderecord.DeletionsDue(f, "")) == 0 {
		return ""
	}
	s.expires--
	n.expired, n.held, n.turningCommand, n.cordon = true, false, turningCommand{}, turnCordonNone
	return "has no record any more: it has expired"
}

// turns are the turns that node i reads, as far as they are its own.
func (n *turningNode) turns(i int) (t protocol.Turns) {
	if n.held {
		t.Held = []protocol.Turn{n.of(i)}
	}
	return t
}

// leave makes a move after which a node is no registered controller.
func (s *turnsState) leave(cfg *TurnsConfig, m turnMove, i int) string {
	n := &s.nodes[i]
	switch {
	case m == turnDeleteExpired:
		return s.deleteExpired(cfg, i)
	case s.leaves == 0:
	case m == turnRemove && !n.up && !n.alive && !n.gone:
		s.leaves--
		left := turningNode{turningLeave: turningLeave{gone: true}}
		if cfg.Off&removedEnds != 0 {
			left.held, left.turningCommand = n.held, n.turningCommand
		}
		*n = left
		return "is removed"
	case m == turnTakeRole && n.alive && !n.roleless:
		if _, allowed := protocol.JudgeCordon(s.fleet(cfg), nodeID(i)); allowed {
			s.leaves--
			n.roleless, n.mayServe, n.place = true, true, 0
			return "loses the controller role"
		}
	}
	return ""
}

// people cordon nodes, and end turns of nodes that are dead, or whose work is not done.
func (s *turnsState) people(cfg *TurnsConfig, m turnMove, i int) string {
	n := &s.nodes[i]
	switch {
	case m == turnCordonWrite && s.cordons > 0 && n.cordon == turnCordonNone && !n.held:
		if _, allowed := protocol.JudgeCordon(s.fleet(cfg), nodeID(i)); allowed {
			s.cordons--
			n.cordon = turnCordonPeople
			return "is cordoned"
		}
	case m == turnUncordon && n.cordon == turnCordonPeople:
		n.cordon = turnCordonNone
		return "is uncordoned"
	case m == turnCordonOver && n.up && n.cordon == turnCordonPeople && (!n.turns(i).Works(nodeID(i)) || cfg.Off&cordonStays != 0):
		n.cordon = turnCordonNone
		return "is not cordoned any more: the time of its cordon is over"
	case m == turnOverride && s.overrides > 0 && n.up && !n.open:
		s.overrides--
		n.open = true
		return "is to serve in spite of its gate"
	case m == turnOverrideEnd && n.open:
		n.open = false
		return "has no override any more"
	case m == turnForce && s.forces > 0 && n.held && (!n.alive || n.work != protocol.TurnWorkDone):
		s.forces--
		n.held, n.work, n.resumed, n.cordon = false, 0, false, turnCordonNone
		return "loses its turn: people have ended it"
	}
	return ""
}
