package model

import (
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// This file defines a world of its own: the files of services change on several nodes, which restart
// them in turn (docs/protocol-nodes.md#service-turns).

// ServiceTurnsConfig configures such a world.
type ServiceTurnsConfig struct {
	Nodes   int
	Bad     bool // the change never becomes ready
	Breaks  int  // how often a service that was ready breaks, and goes on running
	Offs    int  // how often a node is powered off
	Cordons int  // how often people cordon a node, or end a cordon
	Repairs int  // how often people repair a file
	Forces  int  // how often people end the turn of a node that is dead
	Leaves  int  // how often people take the controller role from a node
	// Fine: a node reports its state, and learns of its turn, in moves of their own.
	Fine bool
	Off  serviceSafeguard
}

func (c *ServiceTurnsConfig) String() string {
	kind, steps := "good change", ""
	if c.Bad {
		kind = "bad change"
	}
	if c.Fine {
		steps = ", fine moves"
	}
	if c.Leaves > 0 {
		steps = fmt.Sprintf(", %d leaves", c.Leaves) + steps
	}
	return fmt.Sprintf("%d nodes, %s, %d breaks, %d offs, %d cordons, %d repairs, %d forces%s",
		c.Nodes, kind, c.Breaks, c.Offs, c.Cordons, c.Repairs, c.Forces, steps)
}

// serviceSafeguard is a part of the rules that a search can turn off.
type serviceSafeguard uint16

const (
	// Services of a closed gate are stopped when it was closed for the drain.
	closedDrains serviceSafeguard = 1 << iota
	// A service that clients use waits for a turn.
	servingWaits
	// A turn is taken only if the others serve.
	othersWaitedFor
	// The turn ends only when all services are ready.
	readinessAwaited
	// The gate stays closed until services that stopped behind it are ready.
	gateWithheld
	// A node that was out of service for long waits for no other one that is out.
	patienceEnds
	// Only a node that does not serve is out of service.
	patienceOfBroken
	// A turn whose cordon people ended is given back.
	givenBack
	// The turn of a node that has lost the controller role is finished.
	roleFinishes
	// A node asks again whether the others serve before it stops its service.
	othersAsked
)

// The contents of the file of a service.
const (
	contentOld uint8 = iota
	contentChanged
	contentRepaired
)

// The times since a gate was open.
const (
	gateOpen uint8 = iota
	gateClosing
	gateDrained
)

// What a node knows of its turn.
const (
	turnUnseen uint8 = iota
	turnSeen
	turnOut // and its presence shows that it is out of service
	turnDrained
)

// changingNode is a node, its service, and its keys in the store.
type changingNode struct {
	turningKeys
	up         bool
	file, runs uint8 // contents
	ready      bool
	wasReady   bool // since it started: clients may use it
	served     bool // it was ready since the sidecar started, so it does not keep the gate closed
	changing   bool // it stopped behind a closed gate because of a change, and was not ready since
	stopped    bool // it stopped in its turn, and was not ready since
	gate, seen uint8
	granted    bool // it read that it may take the turn, and did not write that yet
	patient    bool // it had been out of service for long then
	stale      bool // the store changed since that read
}

// turningKeys are the keys of a node in the store.
type turningKeys struct {
	alive, open, down bool // the presence: the gate, and the kube-apiserver
	cordon            turnCordon
	place             uint8 // in the queue; 0: it does not wait
	held              bool
	work              protocol.TurnWork
	roleless          bool // people took the controller role from it
}

// changingState is a state of the world.
type changingState struct {
	nodes                                  [maxTurning]changingNode
	breaks, offs, cordons, repairs, forces uint8
	leaves                                 uint8
}

func initialChanging(cfg *ServiceTurnsConfig) changingState {
	s := changingState{
		breaks: uint8(cfg.Breaks), offs: uint8(cfg.Offs), cordons: uint8(cfg.Cordons),
		repairs: uint8(cfg.Repairs), forces: uint8(cfg.Forces), leaves: uint8(cfg.Leaves),
	}
	for i := range cfg.Nodes {
		s.nodes[i] = changingNode{turningKeys: turningKeys{alive: true, open: true}, up: true, ready: true, wasReady: true, served: true}
	}
	return s
}

// record is the record and presence of a node in the store.
func (s *changingState) record(i int) *protocol.Record {
	n := &s.nodes[i]
	r := &protocol.Record{ID: nodeID(i), Alive: n.alive, Node: protocol.Node{ID: nodeID(i), Roles: protocol.Roles{Controller: !n.roleless}}}
	if r.Presence.Ready, r.Presence.APIServerDown = n.alive && n.open, n.down; r.Presence.Ready {
		r.Presence.Reason = protocol.Ready
	}
	if n.cordon != turnCordonNone {
		r.Node.Cordon.Message = "work"
	}
	return r
}

// facts returns the facts that a waiting node reads. patient: it was out of service for long.
//
//revive:disable-next-line:flag-parameter it is a fact
func (s *changingState) facts(cfg *ServiceTurnsConfig, reader int, patient bool) nodeturns.Facts {
	var f nodeturns.Facts
	if patient {
		f.Out = nodeturns.Patience
	}
	for i := range cfg.Nodes {
		n := &s.nodes[i]
		r := s.record(i)
		if cfg.Off&othersWaitedFor != 0 && i != reader {
			r = initialRecord(i)
		}
		if patient && i == reader && cfg.Off&patienceOfBroken != 0 {
			r.Presence.APIServerDown = true
		}
		f.Fleet.Records = append(f.Fleet.Records, r)
		if n.held {
			f.Fleet.Turns.Held = append(f.Fleet.Turns.Held, protocol.Turn{Node: nodeID(i)})
		}
		if n.place > 0 {
			f.Fleet.Turns.Waiting = append(f.Fleet.Turns.Waiting, protocol.TurnRequest{Node: nodeID(i), Created: int64(n.place)})
		}
	}
	return f
}

// never reports whether what runs on a node never becomes ready.
func (n *changingNode) never(cfg *ServiceTurnsConfig) bool {
	return cfg.Bad && n.runs == contentChanged
}

// restart is the decision of a node about its service whose file changed.
func (n *changingNode) restart(cfg *ServiceTurnsConfig) nodeservices.Restart {
	f := nodeservices.RestartFacts{Serving: n.wasReady && cfg.Off&servingWaits == 0}
	f.Draining = n.seen == turnSeen || n.seen == turnOut
	switch n.gate {
	case gateClosing:
		f.Closed = 1
		if cfg.Off&closedDrains != 0 {
			f.Closed = nodeservices.TurnDrain
		}
	case gateDrained:
		f.Closed = nodeservices.TurnDrain
	}
	return nodeservices.JudgeRestart(f)
}

// pending reports whether a changed service waits.
func (n *changingNode) pending(cfg *ServiceTurnsConfig) bool {
	return n.up && !n.roleless && n.file != n.runs && n.restart(cfg) != nodeservices.RestartNow
}

// othersLeft reports whether another node has stopped serving since node i took its turn, in which nothing was stopped yet.
func (s *changingState) othersLeft(cfg *ServiceTurnsConfig, i int) bool {
	n := &s.nodes[i]
	if !n.held || n.seen != turnSeen && n.seen != turnOut || cfg.Off&othersAsked != 0 {
		return false
	}
	var f protocol.Fleet
	for j := range cfg.Nodes {
		f.Records = append(f.Records, s.record(j))
		if s.nodes[j].held {
			f.Turns.Held = append(f.Turns.Held, protocol.Turn{Node: nodeID(j)})
		}
	}
	out := time.Duration(0)
	if n.patient {
		out = nodeturns.Patience
	}
	return nodeturns.OthersLeft(f, nil, nodeID(i), out) != ""
}

// action is the next action of a node about its turn.
func (s *changingState) action(cfg *ServiceTurnsConfig, i int) nodeservices.TurnAction {
	n := &s.nodes[i]
	ready := n.file == n.runs && n.ready && !n.roleless
	return nodeservices.NextTurnAction(nodeservices.TurnFacts{
		Held: n.held, Work: n.work, Cordoned: n.cordon != turnCordonNone || cfg.Off&givenBack != 0, Pending: n.pending(cfg),
		OthersOut: s.othersLeft(cfg, i),
		Ready:     ready || cfg.Off&readinessAwaited != 0 && n.file == n.runs, Failing: !n.ready && n.never(cfg) && !n.roleless,
		NoRole: n.roleless && cfg.Off&roleFinishes == 0,
	})
}
