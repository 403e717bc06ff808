package model

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// This file models how the sidecar of a node handles its member, and how the sidecar beside etcd's
// leader handles a learner.

// log reports whether the node's disk holds a log of etcd.
func (n *memberNode) log() bool { return n.data == currentData || n.data == oldData }

// facts returns the facts that the sidecar of a node knows.
func (n *memberNode) facts(cfg *MembersConfig) membership.Facts {
	f := membership.Facts{
		Known: n.knows, Wanted: n.wants, Phase: n.phase, Listed: n.knowsListed, Decided: n.knowsDecided,
		Data: n.log(), Runs: n.runs, Removed: n.refused && cfg.Off&refusedEnds == 0,
	}
	if cfg.Off&askedFirst != 0 && f.Decided {
		f.Listed = membership.NotListed
	}
	if cfg.Off&leavingRuns != 0 && n.phase == membership.Leaving && n.knowsListed != membership.NotListed {
		f.Runs = true
	}
	if cfg.Off&dataMoved != 0 && n.data == oldData && !n.runs {
		f.Data = false
	}
	if cfg.Off&decidedStays != 0 {
		f.Decided = false
	}
	if f.Listed == membership.NotListed && n.phase != membership.Adding && n.data == restData {
		f.Data = true // also the files of an etcd that never began
	}
	return f
}

// mayClear asks the protocol whether a node may delete its data, by the facts that it knows.
func (n *memberNode) mayClear(cfg *MembersConfig) bool {
	known := n.facts(cfg)
	f := membership.MarkerFacts{Entering: n.entering, Phase: n.phase, Log: n.log(), Listed: known.Listed, Runs: n.runs}
	if cfg.Off&unbegunCleared != 0 {
		f.Log = true
	}
	if cfg.Off&logKept != 0 {
		f.Log = false
	}
	return membership.MayClear(f)
}

// takeStep takes the next step of a node about its member.
func (s *memberState) takeStep(cfg *MembersConfig, i int) string {
	n := &s.nodes[i]
	step := membership.NextStep(n.facts(cfg))
	if n.before && cfg.Off&sameCluster == 0 {
		return "" // it waits: its directory is of another cluster
	}
	s.steps |= 1 << step
	switch step {
	case membership.BeginAdding:
		n.phase = membership.Adding
	case membership.BeginLeaving:
		n.phase = membership.Leaving
	case membership.EndLeaving:
		n.phase = membership.WithoutMember
	case membership.EndRemoved:
		n.phase, n.up = removedForGood, false
	case membership.EndAdding:
		if cfg.Off&decidedStays != 0 {
			n.decided = false
		}
		n.phase = membership.Working
	case membership.StopMember:
		n.runs = false
	case membership.MoveData:
		if !n.mayClear(cfg) {
			return ""
		}
		n.data = noData
	case membership.StartMember:
		if n.phase == membership.Adding && !n.recorded && !n.log() && s.addLearner(cfg, i) == "" {
			return ""
		}
		n.start(cfg)
	case membership.AddLearner:
		return s.addLearner(cfg, i)
	case membership.RemoveMember:
		if !membership.MayLeave(!n.role, n.decided && cfg.Off&decidedLeaves == 0) {
			return ""
		}
		if n.judged != notJudged || n.removing || !s.quorate() || n.listed == membership.NotListed || !s.mayRemove(cfg, i) {
			return ""
		}
		n.judged = judgedSelf
	default: // it waits
		return ""
	}
	return "takes the step " + step.String()
}

// start starts the process of the member. On the files of an etcd that made no log, it never
// becomes ready.
func (n *memberNode) start(cfg *MembersConfig) {
	if n.phase == membership.Adding && n.mayClear(cfg) {
		if n.log() {
			n.data = oldData // its log is lost
		} else {
			n.data = noData
		}
	}
	if n.data == noData {
		n.data = currentData
	}
	n.runs = true
}

// addLearner adds a member, or finds the one that an earlier attempt added. The record
// follows.
func (s *memberState) addLearner(cfg *MembersConfig, i int) string {
	n := &s.nodes[i]
	if !s.quorate() {
		return ""
	}
	switch verdict, from := s.judgeAddition(cfg, i); verdict {
	case membership.MayAdd:
		n.listed, n.decided = membership.ListedLearner, false
	case membership.WasAdded:
		n.decided = n.decided && n.recorded // the record of its own
		if from != i {                      // of another node with the same address
			was := &s.nodes[from]
			n.listed, n.removing = membership.ListedLearner, was.removing
			was.listed, was.decided, was.removing = membership.NotListed, false, false
		}
	default:
		return ""
	}
	n.recorded = true
	s.changed(cfg)
	n.knowsListed, n.knowsDecided = n.listed, n.decided
	return "is added as a learner"
}

// judgeAddition asks the protocol whether a node may be added. It also returns the node that the
// answer is about.
func (s *memberState) judgeAddition(cfg *MembersConfig, i int) (membership.AdditionVerdict, int) {
	var occupants []membership.Occupant
	var nodes []int
	var removed []string
	own := s.nodes[i].address()
	if s.nodes[i].refused {
		removed = []string{own.Key}
	}
	for k := range s.nodes {
		n := &s.nodes[k]
		if n.listed == membership.NotListed || n.listed == membership.ListedUnknown {
			continue
		}
		m := membership.Occupant{
			PeerURLs: []string{n.address().PeerURL},
			Learner:  n.listed == membership.ListedLearner, Started: n.listed == membership.ListedVoter,
			Leaving: n.decided, Recorded: n.recorded || n.decided,
		}
		if n.recorded {
			m.AddedNode = n.address()
		}
		if cfg.Off&leavingNotAdopted != 0 && !n.recorded {
			m.Leaving, m.Recorded = false, false
		}
		if cfg.Off&addressFree != 0 && k != i {
			m.PeerURLs, m.ClientURL = nil, ""
		}
		m.Started = m.Started || cfg.Off&unrecordedAdopted != 0
		occupants, nodes = append(occupants, m), append(nodes, k)
	}
	verdict, which := membership.JudgeAddition(own, occupants, removed)
	if which < 0 || verdict == membership.KeyRemoved {
		return verdict, i
	}
	return verdict, nodes[which]
}

// address returns the names and addresses that a node sends when it asks to be added.
func (n *memberNode) address() membership.AddedNode {
	at := n.name
	if n.shares {
		at = maxMembers
	}
	return membership.AddedNode{
		Node: memberNames[n.name], Key: string(memberNames[n.name]), Address: memberAddresses[at],
		PeerURL: "peer-" + memberAddresses[at], ClientURL: "client-" + memberAddresses[at],
	}
}

var (
	memberNames     = [maxMembers]protocol.NodeID{"n1", "n2", "n3", "n4", "n5"}
	memberAddresses = [maxMembers + 1]string{"1", "2", "3", "4", "5", "shared"}
)

// learnerPatience is how long a learner may make no progress.
const learnerPatience = time.Second

// keepLearner lets the sidecar beside etcd's leader, or another one in its place, take the next step about
// a learner. The facts say which one, and for how long the learner made no progress or could vote.
func (s *memberState) keepLearner(cfg *MembersConfig, i int, f membership.LearnerFacts) string {
	n := &s.nodes[i]
	if n.listed != membership.ListedLearner || !s.quorate() || f.Leads && cfg.Hangs {
		return ""
	}
	idle := f.Idle
	f.Leaving, f.Index, f.Patience = n.decided, 1, learnerPatience
	if n.runs && n.data == currentData || cfg.Off&learnerInSync != 0 {
		f.Answers, f.Applied = true, 1
	}
	if !f.Leads {
		f = cfg.standIn(f)
	}
	switch membership.NextLearnerStep(f) {
	case membership.PromoteLearner:
		if idle == 0 || !f.Leads { // else it is the same move
			n.listed = membership.ListedVoter
			return "votes now"
		}
	case membership.EvictLearner:
		if n.removing || idle > 0 && s.faults == 0 {
			return ""
		}
		if idle > 0 {
			s.faults--
		}
		if cfg.Off&evictionRecorded == 0 {
			n.decided = true // without a record, in one that names no node
			s.changed(cfg)
		}
		n.removing = true
		return "makes no progress or leaves, and is asked to be removed"
	default:
	}
	return ""
}

// standIn returns the facts by which a sidecar that is not beside etcd's leader decides.
func (c *MembersConfig) standIn(f membership.LearnerFacts) membership.LearnerFacts {
	if c.Off&standsIn != 0 {
		f.Waits = 0
	}
	if c.Off&standInWaits != 0 {
		f.Leaving = false
	}
	if c.Off&standInEvictsNone != 0 {
		f.Leads = true
	}
	return f
}

// promoteLate carries out a promotion that was sent before the learner's removal was decided. Two
// sidecars may act on a learner at the same moment: beside etcd's leader of before, or in its place.
func (s *memberState) promoteLate(i int) string {
	n := &s.nodes[i]
	if s.faults == 0 || n.listed != membership.ListedLearner || !n.decided || !n.runs || n.data != currentData || !s.quorate() {
		return ""
	}
	s.faults--
	n.listed = membership.ListedVoter
	return "votes now, by a request from before its removal was decided"
}

// kill powers a node off: at any moment, while etcd makes its log, or after etcd added its
// member and before its record is written.
func (s *memberState) kill(cfg *MembersConfig, m memberMove, i int) string {
	n := &s.nodes[i]
	if s.faults == 0 || !n.up {
		return ""
	}
	what := "is powered off"
	if m == memberKillDeaf {
		return s.killDeaf(i)
	}
	if m != memberKill && (n.phase != membership.Adding || n.before && cfg.Off&sameCluster == 0) {
		return ""
	}
	switch step := membership.NextStep(n.facts(cfg)); m {
	case memberKillBeginning:
		if step != membership.StartMember || n.data != noData {
			return ""
		}
		n.data = restData
		what = "is powered off while etcd makes its log"
	case memberKillAdding:
		if verdict, _ := s.judgeAddition(cfg, i); step != membership.AddLearner || verdict != membership.MayAdd || !s.quorate() {
			return ""
		}
		n.listed, n.decided, n.recorded = membership.ListedLearner, false, false
		what = "is powered off when its learner was added and has no record"
	default:
	}
	s.faults--
	n.up, n.runs, n.knowsListed, n.knowsDecided = false, false, membership.ListedUnknown, false
	if n.judged == judgedSelf {
		n.judged = notJudged
	}
	return what
}
