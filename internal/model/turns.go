package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// This file defines a world of its own: nodes take turns while they die, come back, break, are
// cordoned, and lose members of etcd (docs/protocol-nodes.md#turns).

// maxTurning is the highest number of nodes in such a world.
const maxTurning = 3

// TurnsConfig configures such a world.
type TurnsConfig struct {
	Nodes   int
	Limit   int  // of turns at the same time
	Members bool // each node runs a voter of etcd
	Faults  int  // how often a node is powered off, breaks, or loses its member
	Cordons int  // how often people cordon a node
	Forces  int  // how often people end the turn of a node that is dead, or whose work is not done
	Kills   int  // how often the program is killed that runs the command of a turn
	Leaves  int  // how often people remove a node that is dead, or take the controller role from one
	Expires int  // how often a leader deletes the record of a node that is dead
	// Overrides is how often people let a node serve in spite of its closed gate.
	Overrides int
	Off       turnSafeguard
}

func (c *TurnsConfig) String() string {
	members := "no members"
	if c.Members {
		members = "members"
	}
	text := fmt.Sprintf("%d nodes, %d turns, %s, %d faults, %d cordons, %d forces", c.Nodes, c.Limit, members, c.Faults, c.Cordons, c.Forces)
	if c.Kills > 0 {
		text += fmt.Sprintf(", %d kills", c.Kills)
	}
	if c.Leaves > 0 {
		text += fmt.Sprintf(", %d leaves", c.Leaves)
	}
	if c.Expires > 0 {
		text += fmt.Sprintf(", %d expire", c.Expires)
	}
	if c.Overrides > 0 {
		text += fmt.Sprintf(", %d overrides", c.Overrides)
	}
	return text
}

// turnCordon is who took a node out of service.
type turnCordon uint8

const (
	turnCordonNone turnCordon = iota
	turnCordonPeople
	turnCordonTurn
)

// turningNode is a node and its keys in the store.
type turningNode struct {
	up      bool
	broken  bool // its kube-apiserver is down until work on it is done
	member  bool // its member of etcd answers
	alive   bool // it has a presence
	ready   bool // as in the presence
	forced  bool // its presence shows that it serves by an override alone
	open    bool // people override its gate
	cordon  turnCordon
	place   uint8 // in the queue; 0: it does not wait
	held    bool  // it has a turn
	granted bool  // it read that it may take the turn, and did not write that yet
	stale   bool  // the store changed since that read
	turningCommand
	turningLeave
}

// turnsState is a state of the world.
type turnsState struct {
	nodes                   [maxTurning]turningNode
	faults, cordons, forces uint8
	overrides, leaves       uint8
	expires, kills          uint8
}

func initialTurns(cfg *TurnsConfig) turnsState {
	s := turnsState{
		faults: uint8(cfg.Faults), cordons: uint8(cfg.Cordons), forces: uint8(cfg.Forces),
		overrides: uint8(cfg.Overrides), leaves: uint8(cfg.Leaves), expires: uint8(cfg.Expires), kills: uint8(cfg.Kills),
	}
	for i := range cfg.Nodes {
		s.nodes[i] = turningNode{up: true, member: cfg.Members, alive: true, ready: true}
	}
	return s
}

// record is the record and presence of a node in the store.
func (s *turnsState) record(i int) *protocol.Record {
	n := &s.nodes[i]
	r := &protocol.Record{ID: nodeID(i), Alive: n.alive, Node: n.node(i)}
	switch {
	case n.alive && n.ready:
		r.Presence.Ready, r.Presence.Reason = true, protocol.Ready
	case n.alive && n.forced:
		r.Presence.Ready, r.Presence.Reason = true, protocol.Overridden
	}
	if n.cordon != turnCordonNone {
		r.Node.Cordon.Message = "work"
	}
	return r
}

// readRecord is the record of a node, as facts has it for a reader; a rule that is off makes it another one.
//
//revive:disable-next-line:flag-parameter it is a fact
func (s *turnsState) readRecord(cfg *TurnsConfig, i, reader int, patient bool) *protocol.Record {
	r := s.record(i)
	switch {
	case cfg.Off&othersServe != 0 && i != reader:
		return initialRecord(i)
	case cfg.Off&turnPatienceOfBroken != 0 && patient && i == reader && s.othersServing(cfg, i) == 0:
		r.Presence.APIServerDown = true
	}
	return r
}

// facts returns the facts that a waiting node reads. patient: it was out of service for long.
//
//revive:disable-next-line:flag-parameter it is a fact
func (s *turnsState) facts(cfg *TurnsConfig, reader int, patient bool) nodeturns.Facts {
	var f nodeturns.Facts
	f.Fleet.Turns.Limit = cfg.Limit
	if patient {
		f.Out = nodeturns.Patience
	}
	for i := range cfg.Nodes {
		n := &s.nodes[i]
		if !n.unregistered() {
			f.Fleet.Records = append(f.Fleet.Records, s.readRecord(cfg, i, reader, patient))
		}
		if n.held && (n.alive || cfg.Off&deadKeeps == 0) {
			f.Fleet.Turns.Held = append(f.Fleet.Turns.Held, protocol.Turn{Node: nodeID(i)})
		}
		if n.place > 0 && (cfg.Off&queueOrdered == 0 || i == reader) {
			f.Fleet.Turns.Waiting = append(f.Fleet.Turns.Waiting, protocol.TurnRequest{Node: nodeID(i), Created: int64(n.place)})
		}
	}
	f.Voters = s.voters(cfg)
	if cfg.Off&deadKeeps != 0 {
		f.Fleet.Records = alive(f.Fleet.Records)
	}
	return f
}

// voters are the voters of etcd.
func (s *turnsState) voters(cfg *TurnsConfig) (out []protocol.Voter) {
	for i := range cfg.Nodes {
		if n := &s.nodes[i]; cfg.Members {
			out = append(out, protocol.Voter{Name: string(nodeID(i)), Healthy: n.member && n.up || cfg.Off&majorityLeft != 0})
		}
	}
	return out
}

// initialRecord is the record of a node that serves.
func initialRecord(i int) *protocol.Record {
	s := turnsState{}
	s.nodes[i] = turningNode{alive: true, ready: true}
	return s.record(i)
}

// turnMove is a kind of transition.
type turnMove int

const (
	turnAsk turnMove = iota
	turnDecide
	turnDecidePatiently
	turnWrite
	turnWork
	turnJudge
	turnAct
	turnReport
	turnStart
	turnMemberStart
	turnPowerOff
	turnBreak
	turnMemberFail
	turnExpire
	turnCordonWrite
	turnUncordon
	turnCordonOver
	turnUncordonInTurn
	turnTypeAgain
	turnEnd
	turnForce
	turnKill
	turnOverride
	turnOverrideEnd
	turnRemove
	turnTakeRole
	turnDeleteExpired
	turnMoves
)

// apply makes a move of a node, and describes it for the story; empty: it is not possible.
func (s *turnsState) apply(cfg *TurnsConfig, m turnMove, i int) string {
	before := *s
	what := s.move(cfg, m, i)
	if what != "" && s.stored() != before.stored() {
		for j := range s.nodes {
			s.nodes[j].stale = s.nodes[j].granted
		}
	}
	return what
}

// stored is the part of the state in the store, which the transactions of turns compare.
func (s *turnsState) stored() (out [maxTurning]turningNode) {
	for i, n := range s.nodes {
		out[i] = turningNode{
			alive: n.alive, ready: n.ready, forced: n.forced, cordon: n.cordon, place: n.place, held: n.held, turningLeave: n.turningLeave,
		}
	}
	return out
}

func (s *turnsState) move(cfg *TurnsConfig, m turnMove, i int) string {
	switch m {
	case turnAsk, turnDecide, turnDecidePatiently, turnWrite, turnWork, turnJudge, turnAct:
		return s.turn(cfg, m, i)
	case turnReport, turnStart, turnMemberStart:
		return s.recover(cfg, m, i)
	case turnPowerOff, turnBreak, turnMemberFail, turnExpire, turnKill:
		return s.fail(m, i)
	case turnUncordonInTurn, turnTypeAgain, turnEnd:
		return s.retype(cfg, m, i)
	case turnRemove, turnTakeRole, turnDeleteExpired:
		return s.leave(cfg, m, i)
	default:
		return s.people(cfg, m, i)
	}
}

// turn makes a move of a node about its own turn.
func (s *turnsState) turn(cfg *TurnsConfig, m turnMove, i int) string {
	n := &s.nodes[i]
	switch {
	case !n.up:
	case m == turnAsk && n.place == 0 && !n.held && !n.runs && !n.roleless:
		for _, other := range s.nodes {
			n.place = max(n.place, other.place)
		}
		n.place++
		return "waits for a turn"
	case (m == turnDecide || m == turnDecidePatiently) && n.place > 0 && !n.granted && s.grants(cfg, m, i):
		own := s.record(i)
		n.granted, n.stale, n.patient = true, false, m == turnDecidePatiently && !own.Serves()
		return "may have the turn"
	case m == turnWrite && n.granted:
		return s.write(cfg, i)
	case m == turnWork && n.runs && (!n.held || n.work != protocol.TurnWorkDone):
		return s.work(cfg, i)
	case m == turnJudge && n.held && cfg.Off&silenceNoticed == 0:
		return n.judge(i)
	case m == turnAct && n.held && n.acts(cfg, i):
		return s.act(cfg, i)
	}
	return ""
}

func (s *turnsState) grants(cfg *TurnsConfig, m turnMove, i int) bool {
	patient := m == turnDecidePatiently
	if patient && cfg.Off&turnPatienceEnds != 0 {
		return false
	}
	f := s.facts(cfg, i, patient)
	if cfg.Off&passedOver != 0 {
		for j := range s.nodes {
			if p := s.nodes[j].place; p > 0 && p < s.nodes[i].place {
				return false
			}
		}
	}
	return nodeturns.Judge(f, nodeID(i)).Verdict == nodeturns.Granted
}

// write takes the turn, if the store did not change since the node read it.
func (s *turnsState) write(cfg *TurnsConfig, i int) string {
	n := &s.nodes[i]
	stale, patient := n.stale, n.patient
	n.granted, n.stale, n.patient = false, false, false
	if stale && cfg.Off&turnGuarded == 0 {
		return "cannot take the turn: the store has changed"
	}
	for j := range s.nodes {
		if s.nodes[j].place > n.place {
			s.nodes[j].place--
		}
	}
	n.place, n.held, n.turningCommand = 0, true, turningCommand{work: protocol.TurnWorkUnderWay, runs: true, patient: patient}
	if n.cordon == turnCordonNone {
		n.cordon = turnCordonTurn
	}
	return "takes the turn"
}

// act takes the next action of the node with the turn.
func (s *turnsState) act(cfg *TurnsConfig, i int) string {
	n := &s.nodes[i]
	p := nodeturns.Progress{
		Work: n.work, Cordoned: n.cordon == turnCordonTurn, Own: *s.record(i), Votes: !cfg.Members || n.member,
	}
	if cfg.Off&serviceAwaited != 0 {
		p.Own, p.Votes = *initialRecord(i), true
	}
	if cfg.Off&roleEnds != 0 {
		p.Own.Node.Roles.Controller = true
	}
	if cfg.Off&overrideEnds != 0 && p.Own.Presence.Reason == protocol.Overridden {
		p.Own.Presence.Reason = protocol.Ready
	}
	switch nodeturns.NextAction(p) {
	case nodeturns.ReturnToService:
		n.cordon = turnCordonNone
		return "returns to service"
	case nodeturns.End:
		n.held, n.turningCommand = false, turningCommand{}
		return "ends its turn"
	default:
		return ""
	}
}
