package model

import (
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// restartMove is a kind of transition of a world in which services change.
type restartMove int

const (
	restartChange restartMove = iota
	restartAsk
	restartDecide
	restartDecidePatiently
	restartWrite
	restartAct
	restartGate
	restartDrain
	restartReport
	restartObserve
	restartLoad
	restartReady
	restartStart
	restartBreak
	restartPowerOff
	restartExpire
	restartCordon
	restartUncordon
	restartRepair
	restartForce
	restartTakeRole
	restartMoves
)

// apply makes a move of a node, and describes it for the story; empty: it is not possible.
func (s *changingState) apply(cfg *ServiceTurnsConfig, m restartMove, i int) string {
	before := *s
	what := s.move(cfg, m, i)
	if what == "" {
		return ""
	}
	if !cfg.Fine {
		for j := range cfg.Nodes {
			s.report(j)
			s.observe(j)
		}
	}
	for j := range s.nodes {
		if s.nodes[j].turningKeys != before.nodes[j].turningKeys {
			for k := range s.nodes {
				s.nodes[k].stale = s.nodes[k].granted
			}
		}
	}
	return what
}

func (s *changingState) move(cfg *ServiceTurnsConfig, m restartMove, i int) string {
	switch m {
	case restartAsk, restartDecide, restartDecidePatiently, restartWrite, restartAct:
		if !s.nodes[i].up {
			return ""
		}
		return s.turn(cfg, m, i)
	case restartGate, restartDrain, restartReport, restartObserve:
		if !s.nodes[i].up {
			return ""
		}
		return s.notice(cfg, m, i)
	case restartLoad, restartReady, restartStart:
		return s.run(cfg, m, i)
	case restartBreak, restartPowerOff, restartExpire:
		return s.fail(m, i)
	case restartTakeRole:
		return s.takeRole(cfg, i)
	default:
		return s.people(m, i)
	}
}

// takeRole takes the controller role from a node, which closes its gate and stops its service.
func (s *changingState) takeRole(cfg *ServiceTurnsConfig, i int) string {
	n := &s.nodes[i]
	var f protocol.Fleet
	for j := range cfg.Nodes {
		f.Records = append(f.Records, s.record(j))
	}
	if _, allowed := protocol.JudgeCordon(f, nodeID(i)); s.leaves == 0 || !n.up || !n.alive || !allowed {
		return ""
	}
	s.leaves--
	s.leaveQueue(i)
	n.roleless, n.gate = true, gateDrained
	n.ready, n.wasReady, n.served, n.changing, n.stopped = false, false, false, false, false
	return "loses the controller role"
}

// turn makes a move of a node about its turn.
func (s *changingState) turn(cfg *ServiceTurnsConfig, m restartMove, i int) string {
	n := &s.nodes[i]
	patient := m == restartDecidePatiently
	switch m {
	case restartAsk:
		wants := s.action(cfg, i) == nodeservices.AskTurn
		switch {
		case wants && n.place == 0:
			for _, other := range s.nodes {
				n.place = max(n.place, other.place)
			}
			n.place++
			return "waits for a turn"
		case !wants && n.place > 0:
			s.leaveQueue(i)
			return "waits no longer"
		}
	case restartDecide, restartDecidePatiently:
		if patient && cfg.Off&patienceEnds != 0 {
			return ""
		}
		f := s.facts(cfg, i, patient)
		if n.place > 0 && !n.granted && nodeturns.Judge(f, nodeID(i)).Verdict == nodeturns.Granted {
			own, _ := f.Fleet.Record(nodeID(i))
			n.granted, n.stale, n.patient = true, false, patient && !own.Serves()
			return "may have the turn"
		}
	case restartWrite:
		if n.granted {
			return s.write(i)
		}
	default:
		return s.act(cfg, i)
	}
	return ""
}

func (s *changingState) leaveQueue(i int) {
	n := &s.nodes[i]
	for j := range s.nodes {
		if n.place > 0 && s.nodes[j].place > n.place {
			s.nodes[j].place--
		}
	}
	n.place, n.granted, n.stale = 0, false, false
}

// write takes the turn, if the store did not change since the node read it.
func (s *changingState) write(i int) string {
	n := &s.nodes[i]
	if n.stale {
		n.granted, n.stale = false, false
		return "cannot take the turn: the store has changed"
	}
	s.leaveQueue(i)
	n.held, n.work = true, protocol.TurnWorkUnderWay
	if n.cordon == turnCordonNone {
		n.cordon = turnCordonTurn
	}
	return "takes the turn"
}

// act takes the next action of a node about its turn.
func (s *changingState) act(cfg *ServiceTurnsConfig, i int) string {
	n := &s.nodes[i]
	switch s.action(cfg, i) {
	case nodeservices.GiveBackTurn:
		if n.held, n.work = false, 0; n.cordon == turnCordonTurn {
			n.cordon = turnCordonNone
		}
		n.seen = min(n.seen, turnSeen) // it drains until its gate has opened
		return "gives its turn back"
	case nodeservices.FailTurn:
		n.work = protocol.TurnWorkFailed
		return "fails in its turn"
	case nodeservices.ContinueTurn:
		n.work = protocol.TurnWorkUnderWay
		return "continues its turn"
	case nodeservices.FinishTurn:
		return s.finish(cfg, i)
	default:
		return ""
	}
}

func (s *changingState) finish(cfg *ServiceTurnsConfig, i int) string {
	n := &s.nodes[i]
	if n.work != protocol.TurnWorkDone {
		n.work = protocol.TurnWorkDone
		return "has done its work"
	}
	p := nodeturns.Progress{Work: n.work, Cordoned: n.cordon == turnCordonTurn, Own: *s.record(i), Votes: true}
	if cfg.Off&readinessAwaited != 0 {
		p.Own = *initialRecord(i)
	}
	switch nodeturns.NextAction(p) {
	case nodeturns.ReturnToService:
		n.cordon = turnCordonNone
		return "returns to service"
	case nodeturns.End:
		n.held, n.work = false, 0
		return "ends its turn"
	default:
		return ""
	}
}

// notice makes a move by which a node follows the store, and clients follow the gate.
func (s *changingState) notice(cfg *ServiceTurnsConfig, m restartMove, i int) string {
	n := &s.nodes[i]
	withheld := !n.served || n.changing && cfg.Off&gateWithheld == 0
	opens := n.cordon == turnCordonNone && !withheld && !n.roleless
	switch {
	case m == restartGate && opens && n.gate != gateOpen:
		n.gate = gateOpen
		return "opens its gate"
	case m == restartGate && !opens && n.gate == gateOpen:
		n.gate = gateClosing
		return "closes its gate"
	case m == restartDrain && n.gate == gateClosing:
		n.gate = gateDrained
		return "is left by clients"
	case m == restartDrain && n.gate == gateDrained && n.seen == turnOut && (!s.othersLeft(cfg, i) || !n.pending(cfg)):
		n.seen = turnDrained
		return "is drained in its turn"
	case m == restartReport && s.report(i):
		return "reports its state"
	case m == restartObserve && s.observe(i):
		return "learns of its turn"
	}
	return ""
}

// report writes the presence.
func (s *changingState) report(i int) (changed bool) {
	n := &s.nodes[i]
	open, down := n.gate == gateOpen, !n.ready
	if !n.up || !n.alive || n.open == open && n.down == down {
		return false
	}
	n.open, n.down = open, down
	return true
}

// observe lets a node learn of its turn.
func (s *changingState) observe(i int) (changed bool) {
	n := &s.nodes[i]
	was := n.seen
	switch {
	case !n.up:
	case !n.held:
		n.seen = turnUnseen
	case n.open:
		n.seen = turnSeen
	default:
		n.seen = max(n.seen, turnOut)
	}
	return n.seen != was
}

// run makes a move of a node's service.
func (s *changingState) run(cfg *ServiceTurnsConfig, m restartMove, i int) string {
	n := &s.nodes[i]
	switch {
	case m == restartLoad && n.up && !n.roleless && n.file != n.runs && n.restart(cfg) == nodeservices.RestartNow:
		n.stopped = n.stopped || n.wasReady && n.cordon == turnCordonTurn
		n.changing = n.changing || n.gate != gateOpen
		n.runs, n.ready, n.wasReady = n.file, false, false
		return "starts its service again"
	case m == restartReady && n.up && !n.roleless && !n.wasReady && !n.never(cfg):
		n.ready, n.wasReady, n.served, n.changing, n.stopped = true, true, true, false, false
		return "has a service that is ready"
	case m == restartStart && (!n.up || !n.alive):
		if !n.up {
			n.runs, n.ready, n.wasReady, n.served, n.changing, n.stopped = n.file, false, false, false, false, false
			n.gate, n.seen = gateDrained, turnUnseen
		}
		n.up, n.alive, n.open, n.down = true, true, false, true
		return "starts"
	}
	return ""
}

func (s *changingState) fail(m restartMove, i int) string {
	n := &s.nodes[i]
	switch {
	case m == restartBreak && s.breaks > 0 && n.up && n.ready:
		s.breaks--
		n.ready = false // and wasReady: it runs, until it is started again
		return "has a service that breaks"
	case m == restartPowerOff && s.offs > 0 && n.up:
		s.offs--
		s.leaveQueue(i)
		n.up = false
		return "is powered off"
	case m == restartExpire && !n.up && n.alive:
		n.alive, n.open, n.down = false, false, false
		return "is dead"
	}
	return ""
}

// people change files, cordon nodes, and end cordons and turns.
func (s *changingState) people(m restartMove, i int) string {
	n := &s.nodes[i]
	switch {
	case m == restartChange && n.file == contentOld:
		n.file = contentChanged
		return "has another file"
	case m == restartRepair && s.repairs > 0 && n.file == contentChanged:
		s.repairs--
		n.file = contentRepaired
		return "has a repaired file"
	case m == restartCordon && s.cordons > 0 && n.cordon == turnCordonNone:
		s.cordons--
		n.cordon = turnCordonPeople
		return "is cordoned"
	case m == restartUncordon && n.cordon == turnCordonPeople:
		n.cordon = turnCordonNone
		return "is uncordoned"
	case m == restartUncordon && n.cordon == turnCordonTurn && s.cordons > 0:
		s.cordons--
		n.cordon = turnCordonNone
		return "is uncordoned in its turn"
	case m == restartForce && s.forces > 0 && n.held && !n.alive:
		s.forces--
		n.held, n.work, n.stopped = false, 0, false
		if n.cordon == turnCordonTurn {
			n.cordon = turnCordonNone
		}
		return "loses its turn: people have ended it"
	}
	return ""
}
