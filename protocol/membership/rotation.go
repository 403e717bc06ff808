package membership

import (
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// This file says how the CA of an etcd that the sidecars run is replaced while everything
// runs (docs/protocol-membership.md#rotation).

// RotationPhase is the progress of the replacement of a CA.
type RotationPhase int

// The phases, in their order. The zero value: no CA is being replaced.
const (
	NoRotation RotationPhase = iota
	// RotationRequested: a voter must create the new CA.
	RotationRequested
	// RotationTrusting: each node begins to trust both CAs, and each voter gets the new key.
	RotationTrusting
	// RotationIssuing: each node gets a certificate of the new CA.
	RotationIssuing
	// RotationDropping: each node ceases to trust the old CA.
	RotationDropping
)

// RotationNode is a registered node with its own report. A node that reported nothing of this
// new CA trusts and uses the old one.
type RotationNode struct {
	ID protocol.NodeID
	// Voter: its member votes. Healthy: that member answers.
	Voter, Healthy bool
	Alive          bool // its sidecar has a presence
	// TrustsNew and TrustsOld are the CAs that its processes trust.
	TrustsNew, TrustsOld bool
	HasKey               bool // of the new CA
	UsesNew              bool // its certificate is of the new CA
}

// RotationFacts are the facts about a rotation that the store contains.
type RotationFacts struct {
	Phase RotationPhase
	// Turn is the node that may restart its processes; empty: none.
	Turn protocol.NodeID
	// Given are the nodes that may hold the new key.
	Given []protocol.NodeID
	Nodes []RotationNode // that are registered
}

// RotationAction is the kind of a RotationStep.
type RotationAction int

// The actions. The zero value: nothing, until the nodes in Waits did their part.
const (
	AwaitNodes RotationAction = iota
	// CreateCA: a voter creates the new CA, and Trusting begins.
	CreateCA
	// StartOver: the new CA is given up, and another one is created.
	StartOver
	// AllowKey: Node may get the new key.
	AllowKey
	// GiveTurn: Node may restart its processes.
	GiveTurn
	// BeginIssuing and BeginDropping begin the next phase.
	BeginIssuing
	BeginDropping
	// EndRotation: the old CA is trusted by no registered node.
	EndRotation
)

// RotationStep is the next step of a rotation.
type RotationStep struct {
	Action RotationAction
	Node   protocol.NodeID   // of AllowKey and GiveTurn
	Waits  []protocol.NodeID // the nodes for which the phase waits
}

// NextRotationStep returns the next step. The sidecar that takes the step writes it only if the
// record of the rotation is unchanged since.
func NextRotationStep(f RotationFacts) RotationStep {
	switch f.Phase {
	case RotationRequested:
		return RotationStep{Action: CreateCA}
	case RotationTrusting:
		// Before all else: nothing that this CA signs may be used any more.
		if len(LostKeys(f)) > 0 {
			return RotationStep{Action: StartOver}
		}
	case RotationIssuing, RotationDropping:
	default:
		return RotationStep{}
	}
	for _, n := range f.Nodes {
		if n.Voter && !slices.Contains(f.Given, n.ID) {
			return RotationStep{Action: AllowKey, Node: n.ID}
		}
	}
	waits := f.waits()
	switch {
	case len(waits) == 0:
		return RotationStep{Action: map[RotationPhase]RotationAction{
			RotationTrusting: BeginIssuing, RotationIssuing: BeginDropping, RotationDropping: EndRotation,
		}[f.Phase]}
	case f.Phase == RotationIssuing || f.turnHeld():
		return RotationStep{Waits: waits}
	}
	for _, n := range f.Nodes {
		if f.needsTurn(n) && f.mayRestart(n) {
			return RotationStep{Action: GiveTurn, Node: n.ID, Waits: waits}
		}
	}
	return RotationStep{Waits: waits}
}

// LostKeys returns the nodes that may hold the new key and are no longer registered.
func LostKeys(f RotationFacts) (lost []protocol.NodeID) {
	for _, id := range f.Given {
		if !slices.ContainsFunc(f.Nodes, func(n RotationNode) bool { return n.ID == id }) {
			lost = append(lost, id)
		}
	}
	return lost
}

// waits are the nodes for which the phase waits.
func (f RotationFacts) waits() (waits []protocol.NodeID) {
	for _, n := range f.Nodes {
		if f.needsTurn(n) || f.Phase == RotationTrusting && n.Voter && !n.HasKey || f.Phase == RotationIssuing && !n.UsesNew {
			waits = append(waits, n.ID)
		}
	}
	return waits
}

// needsTurn reports whether a node must restart its processes in this phase.
func (f RotationFacts) needsTurn(n RotationNode) bool {
	return f.Phase == RotationTrusting && !n.TrustsNew || f.Phase == RotationDropping && n.TrustsOld
}

// turnHeld reports whether a registered node holds the turn and still needs it.
func (f RotationFacts) turnHeld() bool {
	return slices.ContainsFunc(f.Nodes, func(n RotationNode) bool { return n.ID == f.Turn && f.needsTurn(n) })
}

// mayRestart reports whether the voters keep their majority while a node restarts its processes.
// With one or two voters, no majority is left for that moment: the other one must answer.
func (f RotationFacts) mayRestart(n RotationNode) bool {
	if !n.Alive || !n.Voter {
		return n.Alive
	}
	others, healthy := 0, 0
	for _, o := range f.Nodes {
		if o.Voter && o.ID != n.ID {
			others++
			if o.Healthy {
				healthy++
			}
		}
	}
	return healthy >= min(others, protocol.Majority(others+1))
}

// RotationDuty is a node's own next action in a rotation.
type RotationDuty int

// The duties. The zero value: none.
const (
	NoDuty RotationDuty = iota
	// TrustBoth: trust both CAs, and restart the processes.
	TrustBoth
	// FetchKey: get the new key from another voter.
	FetchKey
	// UseNewCA: get a certificate of the new CA.
	UseNewCA
	// DropOldCA: trust only the new CA, and restart the processes.
	DropOldCA
)

// NextRotationDuty returns a node's own next action. self is its own view of itself.
func NextRotationDuty(f RotationFacts, self RotationNode) RotationDuty {
	switch {
	case f.Phase == RotationTrusting && !self.TrustsNew && f.Turn == self.ID: // in turn: its processes restart
		return TrustBoth
	case f.Phase == RotationTrusting && self.TrustsNew && self.Voter && !self.HasKey && slices.Contains(f.Given, self.ID):
		return FetchKey
	case f.Phase == RotationIssuing && !self.UsesNew: // all at once: each trusts both CAs by now, and none restarts
		return UseNewCA
	case f.Phase == RotationDropping && self.TrustsOld && f.Turn == self.ID:
		return DropOldCA
	}
	return NoDuty
}
