package rollout

import (
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
)

// MoveKind is the kind of a move of a rollout, as people read it.
type MoveKind string

// The kinds of a move.
const (
	MoveUpgrade MoveKind = "upgrade" // a node stops and starts again with the bundle
	MoveReload  MoveKind = "reload"  // nodes that already run the release reload the bundle directory
	MoveStart   MoveKind = "start"   // the first node of a cluster without controllers starts
)

// Move is one move of a rollout, and its effects.
type Move struct {
	Kind     MoveKind
	Node     protocol.NodeID // of MoveUpgrade and MoveStart
	From, To protocol.Version
	While    Moment   // of MoveUpgrade: while the node is stopped
	After    Moment   // when the leader only waits
	Events   []string // the events of the move, in order, for people
	Changed  bool     // the objects became the bundle's
	Removed  bool     // objects that the bundle dropped were removed
}

// Moment is the state of the fleet while the leader only waits.
type Moment struct {
	Status protocol.StatusView
	Leader protocol.NodeID // empty: no node leads
	Step   protocol.Step   // of the leader
	Gates  []Gate          // of all controllers with a valid record, by ID
}

// Gate is the readiness of one node.
type Gate struct {
	Node    protocol.NodeID
	Release protocol.Release
	Alive   bool
	Verdict protocol.Verdict
}

// Ready returns the nodes that are ready.
func (m Moment) Ready() []protocol.NodeID {
	var out []protocol.NodeID
	for _, g := range m.Gates {
		if g.Verdict.Ready {
			out = append(out, g.Node)
		}
	}
	return out
}

// gate returns the gate of a node; if there is none, one that is not ready.
func (m Moment) gate(id protocol.NodeID) Gate {
	i := slices.IndexFunc(m.Gates, func(g Gate) bool { return g.Node == id })
	if i < 0 {
		return Gate{Node: id}
	}
	return m.Gates[i]
}

// Forecast is the simulated course of a rollout.
type Forecast struct {
	Now       Moment
	Upgrade   upgrade.Answer     // whether the next upgrade may start, as in /status
	Turns     []string           // the turns whose work is a part of the rollout, for people
	Moves     []Move             // in order; empty: all live nodes run the bundle
	Obstacles []protocol.Warning // why it would not go cleanly; empty: it would
}
