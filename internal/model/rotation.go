package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// This file defines a world of its own: the CA of an etcd that the sidecars run is replaced
// while nodes fail, are started again and are removed (docs/protocol-membership.md#rotation). Its
// nodes all vote. CAs are numbered: 0 is the old one, and each that is created is one more.

// maxRotating is the highest number of nodes in such a world.
const maxRotating = 4

// RotationConfig configures such a world.
type RotationConfig struct {
	Nodes    int
	Faults   int // how often a node is powered off
	Removals int // how often a node that is off is removed, and an attacker keeps a copy of its disk
	Off      rotationSafeguard
}

func (c *RotationConfig) String() string {
	return fmt.Sprintf("%d nodes, %d faults, %d removals", c.Nodes, c.Faults, c.Removals)
}

// rotationSafeguard is a part of the rules that a search can turn off.
type rotationSafeguard uint8

const (
	// Certificates of the new CA are issued when all nodes trust it.
	trustAwaited rotationSafeguard = 1 << iota
	// The old CA is dropped when no node uses a certificate of it.
	useAwaited
	// Nodes that are off count.
	offAwaited
	// One node at a time restarts its processes.
	turnsTaken
	// A removed node that may hold the new key makes the new CA worthless.
	lostKeysCount
	// Certificates are issued when all voters hold the new key.
	keysAwaited
)

// rotatingNode is a node, its disk and its processes.
type rotatingNode struct {
	gone       bool // it was removed
	early      bool // before certificates of the new CA were issued
	up         bool
	restarting bool  // its processes are down for a moment
	disk       uint8 // the CAs in its file, as bits
	trusts     uint8 // the CAs that its processes trust
	uses       uint8 // the CA of its certificate
	keys       uint8 // as bits
	// Its last report, about the CA with that number.
	reported                            uint8
	saysNew, saysOld, saysKey, saysUses bool
}

// rotationState is a state of the world.
type rotationState struct {
	nodes            [maxRotating]rotatingNode
	phase            membership.RotationPhase
	next             uint8 // the number of the new CA
	given            uint8 // as bits of nodes
	turn             int8  // -1: none
	ended            bool
	faults, removals uint8
}

func initialRotation(cfg *RotationConfig) rotationState {
	s := rotationState{phase: membership.RotationRequested, turn: -1, faults: uint8(cfg.Faults), removals: uint8(cfg.Removals)}
	for i := range s.nodes {
		s.nodes[i] = rotatingNode{gone: i >= cfg.Nodes, up: i < cfg.Nodes, disk: 1, trusts: 1, keys: 1}
	}
	return s
}

// facts returns the facts in the store, as a node reads them.
func (s *rotationState) facts(cfg *RotationConfig) membership.RotationFacts {
	f := membership.RotationFacts{Phase: s.phase}
	if s.turn >= 0 {
		f.Turn = nodeID(int(s.turn))
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if s.given&(1<<i) != 0 && (cfg.Off&lostKeysCount == 0 || !n.gone) {
			f.Given = append(f.Given, nodeID(i))
		}
		if n.gone || cfg.Off&offAwaited != 0 && !n.up {
			continue
		}
		known := n.reported == s.next && s.phase > membership.RotationRequested
		r := membership.RotationNode{
			ID: nodeID(i), Voter: true, Healthy: n.up && !n.restarting, Alive: n.up,
			TrustsNew: known && n.saysNew, TrustsOld: !known || n.saysOld, HasKey: known && n.saysKey, UsesNew: known && n.saysUses,
		}
		r.TrustsNew = r.TrustsNew || cfg.Off&trustAwaited != 0
		r.UsesNew = r.UsesNew || cfg.Off&useAwaited != 0
		r.HasKey = r.HasKey || cfg.Off&(keysAwaited|trustAwaited) != 0
		f.Nodes = append(f.Nodes, r)
	}
	return f
}

// self returns the facts that a node knows of itself.
func (s *rotationState) self(i int) membership.RotationNode {
	n, next := &s.nodes[i], uint8(1)<<s.next
	return membership.RotationNode{
		ID: nodeID(i), Voter: true, TrustsNew: n.trusts&next != 0, TrustsOld: n.trusts&^next != 0,
		HasKey: n.keys&next != 0, UsesNew: n.uses == s.next,
	}
}

// rotationMove is a kind of transition.
type rotationMove int

const (
	rotationDecide rotationMove = iota
	rotationDo
	rotationReady
	rotationReport
	rotationStart
	rotationFail
	rotationRemove
	rotationMoves
)

// apply makes a move of a node, and describes it for the story; empty: it is not possible.
func (s *rotationState) apply(cfg *RotationConfig, m rotationMove, i int) string {
	n := &s.nodes[i]
	if n.gone || s.ended {
		return ""
	}
	switch m {
	case rotationDecide:
		if n.up {
			return s.decide(cfg, i)
		}
	case rotationDo:
		if n.up && !n.restarting {
			return s.perform(cfg, i)
		}
	case rotationReady:
		if n.up && n.restarting {
			n.restarting, n.trusts = false, n.disk
			return "has restarted its processes"
		}
	case rotationReport:
		return s.report(i)
	case rotationStart:
		if !n.up {
			n.up, n.trusts = true, n.disk
			return "starts"
		}
	case rotationFail:
		if n.up && s.faults > 0 {
			n.up, n.restarting = false, false
			s.faults--
			return "is powered off"
		}
	case rotationRemove:
		if !n.up && s.removals > 0 {
			n.gone, n.early = true, s.phase <= membership.RotationTrusting
			s.removals--
			return "is removed, and an attacker has a copy of what it had"
		}
	case rotationMoves:
	}
	return ""
}

// decide takes the next step of the rotation.
func (s *rotationState) decide(cfg *RotationConfig, i int) string {
	step := membership.NextRotationStep(s.facts(cfg))
	switch step.Action {
	case membership.CreateCA:
		s.next++
		s.phase, s.turn, s.given = membership.RotationTrusting, -1, 1<<i
		s.nodes[i].keys |= 1 << s.next
		return fmt.Sprintf("creates the CA %d", s.next)
	case membership.StartOver:
		s.phase, s.turn = membership.RotationRequested, -1
		return "gives up the new CA"
	case membership.AllowKey:
		s.given |= 1 << s.index(step.Node)
		return fmt.Sprintf("lets %s have the new key", step.Node)
	case membership.GiveTurn:
		s.turn = int8(s.index(step.Node))
		return fmt.Sprintf("gives the turn to %s", step.Node)
	case membership.BeginIssuing:
		s.phase, s.turn = membership.RotationIssuing, -1
		return "begins to issue certificates"
	case membership.BeginDropping:
		s.phase, s.turn = membership.RotationDropping, -1
		return "begins to drop the old CA"
	case membership.EndRotation:
		s.ended = true
		return "ends the rotation"
	default:
		return ""
	}
}

func (s *rotationState) index(id protocol.NodeID) int {
	for i := range s.nodes {
		if nodeID(i) == id {
			return i
		}
	}
	panic("no such node: " + id)
}

// perform carries out the duty of a node.
func (s *rotationState) perform(cfg *RotationConfig, i int) string {
	n, next := &s.nodes[i], uint8(1)<<s.next
	f := s.facts(cfg)
	if cfg.Off&turnsTaken != 0 {
		f.Turn = nodeID(i)
	}
	switch membership.NextRotationDuty(f, s.self(i)) {
	case membership.TrustBoth:
		n.disk, n.restarting = 1<<n.uses|next, true
		return "trusts both CAs, and restarts its processes"
	case membership.FetchKey:
		if !s.keyUp(next) {
			return ""
		}
		n.keys |= next
		return "receives the new key"
	case membership.UseNewCA:
		if !s.keyUp(next) {
			return ""
		}
		n.uses = s.next
		return "uses a certificate of the new CA"
	case membership.DropOldCA:
		n.disk, n.keys, n.restarting = next, n.keys&next, true
		return "drops the old CA, and restarts its processes"
	default:
		return ""
	}
}

// keyUp reports whether a running node holds a key.
func (s *rotationState) keyUp(next uint8) bool {
	for i := range s.nodes {
		if n := &s.nodes[i]; !n.gone && n.up && n.keys&next != 0 {
			return true
		}
	}
	return false
}

// report writes the facts that a node knows of itself into the store.
func (s *rotationState) report(i int) string {
	n, self := &s.nodes[i], s.self(i)
	if !n.up || n.restarting || s.phase == membership.RotationRequested {
		return ""
	}
	was := *n
	n.reported = s.next
	n.saysNew, n.saysOld, n.saysKey, n.saysUses = self.TrustsNew, self.TrustsOld, self.HasKey, self.UsesNew
	if *n == was {
		return ""
	}
	return "reports what it trusts and uses"
}
