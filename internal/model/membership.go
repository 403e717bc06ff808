package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// This file defines a world of its own: the members of an etcd that the sidecars run, and
// how nodes become members and leave (docs/protocol-membership.md#membership). It shares nothing with the
// status: a search through both worlds at once would only multiply them.
// membershipsearch.go searches it.

// maxMembers is the highest number of nodes in such a world.
const maxMembers = 5

// MembersConfig configures a world of members.
type MembersConfig struct {
	Nodes   int  // members at first
	Down    int  // how many of them are off for good
	Spare   int  // more nodes, without a member at first
	Changes int  // how often people change a role or remove a member
	Faults  int  // how often a node is powered off, a learner makes no progress, or a request is carried out late
	Shared  bool // people gave the nodes without a member the same address
	// Joins: the nodes without a member are new, and join.
	Joins    bool
	Restores int // how often people restore the cluster on a node that was a member
	Upgrades int // how often people stop a node for an upgrade
	// Hangs: the sidecar beside etcd's leader hangs all the time, and its member leads on.
	Hangs bool
	Off   memberSafeguard
	Only  string // the invariant that is asked; empty: all
}

// String lists the bounds.
func (c *MembersConfig) String() string {
	out := fmt.Sprintf("%d members, %d of them off, %d nodes without, %d changes, %d faults", c.Nodes, c.Down, c.Spare, c.Changes, c.Faults)
	if c.Joins {
		out += ", those without are new"
	}
	if c.Hangs {
		out += ", the sidecar beside etcd's leader hangs"
	}
	if c.Restores > 0 {
		out += fmt.Sprintf(", %d restores", c.Restores)
	}
	if c.Upgrades > 0 {
		out += fmt.Sprintf(", %d upgrades", c.Upgrades)
	}
	return out
}

// lifeOf is the kind of etcd data in a node's data directory.
type lifeOf uint8

const (
	noData      lifeOf = iota
	currentData        // of the node's member, or of one that was added for it
	oldData            // of a member that was removed
	restData           // an etcd began, and ended before it made a log: no other one can use it
)

// judged is a removal that was judged and not written yet.
type judged uint8

const (
	notJudged      judged = iota
	judgedRole            // by the command that takes the role
	judgedOperator        // by sidecar cluster remove
	judgedSelf            // by the node that leaves
)

// removedForGood is the phase of a node that an operator removed.
const removedForGood = membership.WithoutMember + 1

// memberNode is one node.
type memberNode struct {
	name   uint8 // for stories only
	shares bool  // it was given the address of the others that share one

	// In etcd.
	listed   membership.Listed
	role     bool
	decided  bool // its record shows that it is leaving
	recorded bool // its member is in a record
	removing bool // a request to remove it may still be carried out
	refused  bool // an operator removed it for good: its key is refused

	judged judged

	// On the disk.
	entering bool // it joins for the first time, and was never a working member
	before   bool // it is of the cluster of before a restore
	deaf     bool // its log knows no other member yet
	phase    membership.Phase
	data     lifeOf

	// In the sidecar.
	up           bool
	off          bool // for good
	runs         bool // the member's process
	knows        bool // it learned its role
	wants        bool // the role that it learned
	knowsListed  membership.Listed
	knowsDecided bool
}

// memberState is a state of the world.
type memberState struct {
	nodes                               [maxMembers]memberNode
	changes, faults, restores, upgrades uint8
	steps                               uint16 // that the last move asked for: for counts only
}

func initialMembers(cfg *MembersConfig) memberState {
	st := memberState{
		changes: uint8(cfg.Changes), faults: uint8(cfg.Faults), restores: uint8(cfg.Restores), upgrades: uint8(cfg.Upgrades),
	}
	for i := range cfg.Nodes + cfg.Spare {
		n := &st.nodes[i]
		n.name, n.listed, n.phase, n.up = uint8(i), membership.NotListed, membership.WithoutMember, true
		if i < cfg.Nodes {
			n.role, n.listed, n.recorded = true, membership.ListedVoter, true
			n.phase, n.data, n.runs = membership.Working, currentData, true
		}
		n.shares = cfg.Shared && i >= cfg.Nodes
		if cfg.Joins && i >= cfg.Nodes {
			n.entering, n.role, n.phase = true, true, membership.PhaseUnset
		}
		if i < cfg.Down {
			n.off, n.up, n.runs = true, false, false
		}
	}
	return st
}

func (n *memberNode) votes() bool   { return n.listed == membership.ListedVoter }
func (n *memberNode) healthy() bool { return n.votes() && n.runs && n.data == currentData }

// count returns the voters, and how many of them are healthy.
func (s *memberState) count() (voters, healthy int) {
	for i := range s.nodes {
		if n := &s.nodes[i]; n.votes() {
			voters++
			if n.healthy() {
				healthy++
			}
		}
	}
	return voters, healthy
}

// quorate reports whether etcd can answer and change anything.
func (s *memberState) quorate() bool {
	voters, healthy := s.count()
	return healthy >= protocol.Majority(voters)
}

// mayRemove judges a removal by the current records and members in etcd.
func (s *memberState) mayRemove(cfg *MembersConfig, i int) bool {
	if !s.nodes[i].votes() {
		return true
	}
	var others []protocol.Voter
	for k := range s.nodes {
		n := &s.nodes[k]
		if k == i || !n.votes() {
			continue
		}
		others = append(others, protocol.Voter{
			Healthy: n.healthy() || cfg.Off&healthCounted != 0,
			Leaving: (n.decided || !n.role) && cfg.Off&leavingCounted == 0,
		})
	}
	return membership.JudgeRemoval(others) == membership.MayRemove
}

// changed is called when a record changes: removals that were judged before must be judged
// again.
func (s *memberState) changed(cfg *MembersConfig) {
	if cfg.Off&removalGuard != 0 {
		return
	}
	for i := range s.nodes {
		s.nodes[i].judged = notJudged
	}
}

// memberMove is something that can happen.
type memberMove uint8

const (
	memberJudgeRole memberMove = iota
	memberJudgeRemoval
	memberWrite
	memberGive
	memberLearn
	memberAsk
	memberStep
	memberPromote
	memberStandIn
	memberPromoteLate
	memberEvict
	memberLand
	memberNotice
	memberKill
	memberKillBeginning
	memberKillAdding
	memberStart
	memberJoin
	memberKillDeaf
	memberRestore
	memberDelete
	memberUpgrade
	memberRefuse
	memberMoves = iota
)

// apply makes a move of a node, and describes it for the story; empty: it is not possible now.
func (s *memberState) apply(cfg *MembersConfig, m memberMove, i int) string {
	n := &s.nodes[i]
	switch m {
	case memberJudgeRole, memberJudgeRemoval, memberWrite, memberGive, memberRefuse:
		return s.applyAdmin(cfg, m, i)
	case memberLearn:
		if n.up && s.quorate() && (!n.knows || n.wants != n.role) {
			n.knows, n.wants = true, n.role
			return "learns its role"
		}
	case memberAsk:
		if verdict, _ := s.judgeAddition(cfg, i); n.listed == membership.ListedLearner && !n.recorded && verdict != membership.WasAdded {
			return "" // it learns that the address is in use
		}
		if n.up && s.quorate() && (n.knowsListed != n.listed || n.knowsDecided != n.decided) {
			n.knowsListed, n.knowsDecided = n.listed, n.decided
			return "asks for the members"
		}
	case memberStep:
		if n.up && n.phase != removedForGood {
			return s.takeStep(cfg, i)
		}
	case memberPromote:
		return s.keepLearner(cfg, i, membership.LearnerFacts{Leads: true})
	case memberStandIn:
		return s.keepLearner(cfg, i, membership.LearnerFacts{Idle: learnerPatience, Waits: membership.StandInAfter})
	case memberPromoteLate:
		return s.promoteLate(i)
	case memberEvict:
		return s.keepLearner(cfg, i, membership.LearnerFacts{Leads: true, Idle: learnerPatience})
	case memberJoin:
		if n.up && n.entering {
			return s.join(cfg, i)
		}
	case memberRestore, memberDelete, memberUpgrade:
		return s.applyPeople(cfg, m, i)
	case memberKill, memberKillBeginning, memberKillAdding, memberKillDeaf:
		return s.kill(cfg, m, i)
	default:
		return s.happen(m, i)
	}
	return ""
}

// happen makes a move that no person and no sidecar decides.
func (s *memberState) happen(m memberMove, i int) string {
	n := &s.nodes[i]
	switch m {
	case memberLand:
		if n.removing && s.quorate() {
			return s.land(i)
		}
	case memberNotice:
		return n.notice()
	case memberStart:
		if !n.up && !n.off && n.phase != removedForGood {
			n.up, n.runs = true, n.phase == membership.Working
			if n.runs && n.before && n.data != noData {
				n.up, n.runs = false, false // etcd contains the records of another cluster
				return ""
			}
			return "is started again"
		}
	default:
	}
	return ""
}

// applyAdmin makes a move of people and of their commands, which judge first, and then
// write.
func (s *memberState) applyAdmin(cfg *MembersConfig, m memberMove, i int) string {
	n := &s.nodes[i]
	possible := s.changes > 0 && s.quorate() && n.judged == notJudged && n.phase != removedForGood
	switch {
	case m == memberJudgeRole && possible && n.role && s.mayRemove(cfg, i):
		s.changes--
		n.judged = judgedRole
		return "may lose its role, a command finds"
	case m == memberJudgeRemoval && possible && n.listed != membership.NotListed && s.mayRemove(cfg, i):
		s.changes--
		n.judged = judgedOperator
		return "may be removed, a command finds"
	case m == memberGive && possible && !n.role:
		s.changes--
		n.role = true
		s.changed(cfg)
		return "gets the role"
	case m == memberWrite && n.judged != notJudged && s.quorate():
		return s.write(cfg, i)
	case m == memberRefuse && s.faults > 0 && n.judged == judgedSelf && s.quorate() && n.listed != membership.NotListed:
		s.faults--
		s.write(cfg, i)
		n.removing = false
		return "writes that it is leaving, and etcd refuses to remove it"
	}
	return ""
}

// write writes the removal that was judged.
func (s *memberState) write(cfg *MembersConfig, i int) string {
	n := &s.nodes[i]
	was := n.judged
	n.judged = notJudged
	s.changed(cfg)
	if was == judgedRole {
		n.role = false
		return "loses its role"
	}
	if n.listed == membership.NotListed {
		return "was removed already"
	}
	n.decided, n.removing, n.refused = true, true, n.refused || was == judgedOperator && n.recorded
	return "is asked to be removed from the members"
}

// land carries out a request to remove a member.
func (s *memberState) land(i int) string {
	n := &s.nodes[i]
	n.removing = false
	if n.listed == membership.NotListed {
		return "was removed already"
	}
	n.listed, n.decided, n.recorded = membership.NotListed, false, false
	if n.data == currentData {
		n.data = oldData
	}
	return "is removed from the members"
}

// notice lets the process of a removed member end by itself.
func (n *memberNode) notice() string {
	if !n.runs || n.data != oldData || n.deaf {
		return ""
	}
	n.runs, n.knowsListed, n.knowsDecided = false, membership.NotListed, false
	if n.phase == membership.Working {
		n.phase, n.up = removedForGood, false
		return "was removed by an operator, and ends"
	}
	return "notices that its member was removed"
}
