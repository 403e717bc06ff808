package protocol

import "slices"

// MoveKind says what happens to nodes in a step of a rollout.
type MoveKind int

// The kinds of a move. The zero value is none.
const (
	MoveUnset   MoveKind = iota
	MoveUpgrade          // a node stops, and comes back with the bundle
	MoveReload           // the folder changes on nodes that run the release already
	MoveStart            // the first node of a cluster without controllers starts
)

// Move is one step of a rollout, and what comes of it.
type Move struct {
	Kind     MoveKind
	Node     NodeID // of MoveUpgrade
	From, To Version
	While    Moment   // of MoveUpgrade: while the node is away
	After    Moment   // when nobody has anything to do any more
	Events   []string // what happened on the way, for people
	Changed  bool     // the objects became those of the bundle
	Removed  bool     // what the bundle lacks was removed
}

// Moment is how things stand when the leader has nothing to do but wait.
type Moment struct {
	Status StatusView
	Leader NodeID // empty: nobody leads
	Step   Step   // of the leader
	Gates  []Gate // of all controllers whose record is well, by ID
}

// Gate is what a node's /readyz says.
type Gate struct {
	Node    NodeID
	Release Release
	Alive   bool
	Verdict Verdict
}

// Ready returns the nodes that are ready.
func (m Moment) Ready() []NodeID {
	var out []NodeID
	for _, g := range m.Gates {
		if g.Verdict.Ready {
			out = append(out, g.Node)
		}
	}
	return out
}

// gate returns what a node's /readyz says.
func (m Moment) gate(id NodeID) Gate {
	i := slices.IndexFunc(m.Gates, func(g Gate) bool { return g.Node == id })
	if i < 0 {
		return Gate{Node: id}
	}
	return m.Gates[i]
}

// Forecast is what a rollout would come to.
type Forecast struct {
	Now       Moment
	Moves     []Move     // in order; empty: all nodes have the bundle
	Obstacles []Obstacle // why it would not go cleanly; empty: it would
}
