package model

import (
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
)

// This file models nodes that join for the first time, and people who act on whole
// clusters: they restore one on a node, and stop nodes for an upgrade.

// join takes the next step of a node that joins. It is enrolled once: after its etcd made a log, it asks
// again only while it receives nothing from other members.
func (s *memberState) join(cfg *MembersConfig, i int) string {
	n := &s.nodes[i]
	removed := n.listed == membership.NotListed || n.data == oldData
	switch {
	case n.votes() && n.runs && n.data == currentData:
		n.entering, n.deaf, n.phase = false, false, membership.Working
		return "votes, and writes that it is a working member"
	case n.log() && !n.runs && (!removed || n.deaf):
		n.runs = true
		return "goes on with its log"
	case n.runs && !n.deaf, n.runs && !removed:
		return "" // it waits for its vote, or notices that it was removed
	case n.runs && cfg.Off&asksAgain != 0, !s.quorate():
		return ""
	}
	return s.enrol(cfg, i)
}

// enrol adds a node, or finds the member that an earlier attempt added. As another one it
// begins without data.
func (s *memberState) enrol(cfg *MembersConfig, i int) string {
	n := &s.nodes[i]
	was, recorded := n.listed, n.recorded
	if verdict, _ := s.judgeAddition(cfg, i); verdict == membership.KeyRemoved && n.listed == membership.NotListed {
		n.phase, n.up, n.runs = removedForGood, false, false
		return "was removed by an operator, and ends"
	}
	if s.addLearner(cfg, i) == "" {
		return ""
	}
	n.role = n.role || !recorded && cfg.Off&joinGivesRole == 0 // a record of before may not have it
	n.runs = false
	f := membership.MarkerFacts{Entering: true, Log: n.log(), Replaced: was == membership.NotListed && cfg.Off&replacedCleared == 0}
	if membership.MayClear(f) {
		n.data = noData
	}
	if n.data == noData {
		n.data = currentData
	}
	n.deaf, n.runs = false, true
	return "is added as a learner, and begins"
}

// killDeaf powers a node off just after its etcd made a log, which knows no other member yet.
func (s *memberState) killDeaf(i int) string {
	n := &s.nodes[i]
	if !n.entering || !n.runs || n.data != currentData || n.listed != membership.ListedLearner {
		return ""
	}
	s.faults--
	n.up, n.runs, n.deaf = false, false, true
	return "is powered off when its etcd has made a log, before that knows the others"
}

// applyPeople makes a move of people about the whole cluster.
func (s *memberState) applyPeople(cfg *MembersConfig, m memberMove, i int) string {
	n := &s.nodes[i]
	switch { // a node that a cluster lists must be removed from it first
	case m == memberRestore && s.restores > 0 && n.data == currentData && !n.entering && !n.before && !n.up:
		s.restores--
		s.restore(cfg, i)
		return "gets the cluster restored, and is its only member"
	case m == memberDelete && n.before && !n.runs && n.listed == membership.NotListed:
		*n = memberNode{name: n.name, role: n.role, off: n.off, up: !n.off, listed: membership.NotListed, entering: true}
		return "loses its directory of before the restore, and is to join"
	case m == memberUpgrade && s.upgrades > 0 && n.up && n.votes() && s.mayUpgrade(cfg):
		s.upgrades--
		n.up, n.runs, n.knowsListed, n.knowsDecided = false, false, membership.ListedUnknown, false
		return "is stopped for an upgrade"
	}
	return ""
}

// restore makes a cluster of one member. The others keep their directories, and are off.
func (s *memberState) restore(cfg *MembersConfig, at int) {
	for i := range s.nodes {
		n := &s.nodes[i]
		n.judged, n.removing, n.decided, n.recorded, n.listed = notJudged, false, false, false, membership.NotListed
		n.runs, n.knows, n.knowsListed, n.knowsDecided = false, false, membership.ListedUnknown, false
		if i != at {
			n.up = false
			n.before = n.before || n.phase != membership.PhaseUnset || n.log()
			continue
		}
		n.listed, n.recorded, n.phase, n.off = membership.ListedVoter, true, membership.Working, false
		n.role = n.role || cfg.Off&roleGiven == 0
	}
}

// mayUpgrade asks whether a voter may be stopped.
func (s *memberState) mayUpgrade(cfg *MembersConfig) bool {
	var voters []protocol.Voter
	for i := range s.nodes {
		if n := &s.nodes[i]; n.votes() {
			voters = append(voters, protocol.Voter{Name: string(memberNames[n.name]), Healthy: n.healthy()})
		}
	}
	return cfg.Off&obstaclesAsked != 0 || len(upgrade.VoterObstacles(voters)) == 0
}
