package rollout

import (
	"sort"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
)

// Input is the input of a forecast: a fleet as it is, and the bundle that its
// nodes are to run.
type Input struct {
	Fleet  protocol.Fleet
	Status protocol.StatusView
	Store  string         // the ID of the store of fleet and status; empty: there is none
	Mark   protocol.Mark  // MarkUnknown: the API was not asked
	Bundle protocol.Local // the release to be rolled out; its ID is not used

	// Replacement of the objects' bundle that people asked for, and no leader used yet.
	Replacement protocol.Replacement

	// Rollback: simulate that people begin a rollback to the bundle's release first.
	Rollback bool

	// The other facts of upgrade.Judge.
	Voters  []protocol.Voter // of the etcd that the sidecars run
	Removed []protocol.MemberRemoval
	Full    bool // the database of etcd is full
}

// upgrade is the answer that /status gives.
func (in Input) upgrade() upgrade.Answer {
	return upgrade.Judge(upgrade.Facts{Full: in.Full, Status: in.Status, Fleet: in.Fleet, Voters: in.Voters, Removed: in.Removed})
}

// Simulate rolls the bundle out over the fleet: one node after the other stops
// and starts again with the bundle. Before and after each start the leader takes
// the steps that protocol.Next decides, until it waits. Simulate does not change
// the data that in refers to.
//
// It assumes that dead nodes stay dead, corrupt records stay corrupt, withdrawn
// nodes stay withdrawn, and requests to the API succeed. A record does not carry
// its node's minApiserverRelease. Where neither the bundle nor the mark contains
// it, Simulate takes the minimum of the status.
func Simulate(in Input) Forecast {
	s := newSimulation(in)
	out := Forecast{Now: s.moment(protocol.Step{}), Upgrade: in.upgrade()}
	if in.Status.Kind == protocol.StatusUndecodable {
		out.Obstacles = []protocol.Warning{statusCorrupt(in.Status)}
		return out
	}
	out.Turns = turnNotes(in, out)
	s.finishTurns()
	for _, m := range s.moves() {
		out.Moves = append(out.Moves, s.perform(m))
	}
	out.Obstacles = obstacles(in, out, s)
	return out
}

// firstNode is the ID of the node that starts where no node is registered.
const firstNode protocol.NodeID = "(first)"

// moves returns the moves of the rollout in order. The leader moves late, so that
// leadership changes hands once.
func (s *simulation) moves() []Move {
	var out []Move
	anyReloads, controllers := false, 0
	for _, r := range s.fleet.Records {
		if !isController(r) {
			continue
		}
		controllers++
		switch {
		case s.mustRestart(r) && r.Alive:
			out = append(out, Move{Kind: MoveUpgrade, Node: r.ID, From: r.Node.Version, To: s.in.Bundle.Version})
		case s.canReload(r):
			anyReloads = true
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return s.rank(out[i].Node) < s.rank(out[j].Node) }) // compiled once, unlike slices
	if anyReloads {
		out = append([]Move{{Kind: MoveReload, From: s.in.Bundle.Version, To: s.in.Bundle.Version}}, out...)
	}
	if controllers == 0 {
		out = append(out, Move{Kind: MoveStart, Node: firstNode, To: s.in.Bundle.Version})
	}
	return out
}

// isController reports whether a record is valid and lists the controller role.
func isController(r *protocol.Record) bool { return r.Problem == "" && r.Node.Roles.Controller }

// rank orders the nodes: first those that have a turn, next those that only follow, then the leader, then
// those that cannot lead.
func (s *simulation) rank(id protocol.NodeID) int {
	r, _ := s.fleet.Record(id)
	_, hasTurn := s.in.turnOf(id)
	switch {
	case hasTurn:
		return -1
	case r.Presence.Election == protocol.Withdrawn:
		return 2
	case id == s.leader:
		return 1
	}
	return 0
}

// mustRestart reports whether a node runs the bundle only after a restart: a running sidecar
// reloads objects, never a release, constraints, or a bundle of another name. A record does not
// carry minApiserverRelease, so the status must show that it differs.
func (s *simulation) mustRestart(r *protocol.Record) bool {
	wanted, view := s.in.Bundle, s.in.Status
	otherName := r.Node.Bundle != "" && r.Node.Bundle != wanted.Bundle
	if otherName || r.Node.Version != wanted.Version || r.Node.MinReconciler != wanted.Constraints.MinReconciler {
		return true
	}
	doneAtRelease := view.Kind == protocol.StatusPresent && view.Status.State == protocol.Done &&
		view.Status.ContentRelease == wanted.Version.Release
	return doneAtRelease && view.Status.MinCompatible != wanted.Constraints.MinAPIServer
}

// canReload reports whether a live node reloads the bundle without a restart.
func (s *simulation) canReload(r *protocol.Record) bool {
	return isController(r) && r.Alive && !s.mustRestart(r) && r.Node.Digest != s.in.Bundle.Digest
}

// perform makes a move, and lets the leader react to it.
func (s *simulation) perform(m Move) Move {
	s.events, s.changed, s.removed = nil, false, false
	switch m.Kind {
	case MoveUpgrade:
		s.stop(m.Node)
		m.While = s.settle()
		s.start(m.Node)
	case MoveReload:
		for _, r := range s.fleet.Records {
			if s.canReload(r) {
				r.Node.Digest = s.in.Bundle.Digest
			}
		}
	case MoveStart:
		s.add(m.Node)
		s.start(m.Node)
	}
	m.After = s.settle()
	m.Events, m.Changed, m.Removed = s.events, s.changed, s.removed
	return m
}
