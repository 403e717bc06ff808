package membership

import "github.com/lockstep-dev/lockstep/protocol"

// This file says which member of an etcd that the sidecars run may be removed, and in
// which order a node becomes a member and leaves (docs/protocol-membership.md#membership).

// RemovalVerdict is whether a voter may be removed.
type RemovalVerdict int

// The verdicts. The zero value: none was reached.
const (
	_ RemovalVerdict = iota
	// MayRemove: the others stay a cluster.
	MayRemove
	// KeepLastVoter: no voter would stay.
	KeepLastVoter
	// KeepQuorum: fewer than a majority of the others would answer.
	KeepQuorum
)

// JudgeRemoval says whether a voter may be removed, given the other voters. It counts
// with and without the voters that are leaving: a majority must answer while they still
// vote, and after they left.
func JudgeRemoval(others []protocol.Voter) RemovalVerdict {
	healthy, staying, healthyStaying := 0, 0, 0
	for _, v := range others {
		if v.Healthy {
			healthy++
		}
		if !v.Leaving {
			staying++
		}
		if v.Healthy && !v.Leaving {
			healthyStaying++
		}
	}
	switch {
	case staying == 0:
		return KeepLastVoter
	case healthy < protocol.Majority(len(others)), healthyStaying < protocol.Majority(staying):
		return KeepQuorum
	}
	return MayRemove
}

// Cost is what a cluster loses with a voter that may be removed.
type Cost int

// The costs. The zero value: not judged.
const (
	_ Cost = iota
	// CostsNothing: as many voters may fail as before, or none could already.
	CostsNothing
	// CostsSpare: no voter may fail any more.
	CostsSpare
	// CostsCopy: one voter stays, with the only copy of the data.
	CostsCopy
)

// JudgeCost says what the cluster loses with a voter, given the other ones. People who take the role of a
// member are asked for --force if it is anything.
func JudgeCost(target protocol.Voter, others []protocol.Voter) Cost {
	staying, healthy := 0, 0
	for _, v := range others {
		if v.Leaving {
			continue
		}
		staying++
		if v.Healthy {
			healthy++
		}
	}
	before := healthy
	if target.Healthy {
		before++
	}
	switch {
	case target.Leaving:
		return CostsNothing // the cluster loses it in any case
	case staying == 1:
		return CostsCopy
	case before > protocol.Majority(staying+1) && healthy <= protocol.Majority(staying):
		return CostsSpare
	}
	return CostsNothing
}

// EndsAtWork reports whether the sidecar of a working member ends: an operator removed the member for good. A list that
// misses it for another reason ends nothing.
func EndsAtWork(listed Listed, removed bool) bool { return listed == NotListed && removed }

// MayLeave reports whether a node that leaves by itself may ask for its removal: it lost the role, or
// the removal was decided before. Nothing takes that back, because an earlier request may be carried out at
// any time: a node that got the role again leaves first, and is added again.
func MayLeave(lostRole, decided bool) bool { return lostRole || decided }

// Phase is the node's progress in gaining or losing its member, as recorded on
// its disk.
type Phase int

// The phases. The zero value: none is known.
const (
	PhaseUnset Phase = iota
	// Working: its member was ready. Its data is never made again.
	Working
	// Adding: it becomes a member.
	Adding
	// Leaving: it leaves.
	Leaving
	// WithoutMember: it holds credentials, but no member.
	WithoutMember
)

// Listed says whether the list of the members contains a node's member, and whether
// that votes.
type Listed int

// The values. The zero value: the members did not answer.
const (
	ListedUnknown Listed = iota
	NotListed
	ListedLearner
	ListedVoter
)

// Facts are the facts that a sidecar knows about its node's member.
type Facts struct {
	// Known: the node's roles are known, from its record or from the disk.
	Known bool
	// Wanted: the node has the role of a member.
	Wanted bool
	Phase  Phase
	Listed Listed
	// Decided: the removal of the member was decided. It may be carried out at any time.
	Decided bool
	// Removed: people removed a member with the key of this node for good. The cluster refuses that key.
	Removed bool
	Data    bool // the data directory contains etcd's log
	Runs    bool // the member's process runs, or may run
}

// Step is a sidecar's next step with its node's member.
type Step int

// The steps. The zero value: none was decided.
const (
	_ Step = iota
	// AsIs: nothing.
	AsIs
	// AskMembers: ask for the list of the members.
	AskMembers
	// BeginAdding: write on the disk that the node becomes a member.
	BeginAdding
	// AddLearner: add the member to etcd as a learner, which does not vote yet.
	AddLearner
	// StartMember: start its process.
	StartMember
	// AwaitVote: wait until it votes.
	AwaitVote
	// EndAdding: write on the disk that it is a working member.
	EndAdding
	// BeginLeaving: write on the disk that the node leaves.
	BeginLeaving
	// RemoveMember: remove the member from etcd.
	RemoveMember
	// StopMember: stop its process.
	StopMember
	// MoveData: move its data away.
	MoveData
	// EndLeaving: write on the disk that the node has no member.
	EndLeaving
	// EndRemoved: write on the disk that people removed the node for good, and end its sidecar.
	EndRemoved
	memberSteps = iota
)

// String names the step.
func (s Step) String() string {
	names := [memberSteps]string{
		"Unset", "MemberAsIs", "AskMembers", "BeginAdding", "AddLearner", "StartMember", "AwaitVote", "EndAdding",
		"BeginLeaving", "RemoveMember", "StopMember", "MoveData", "EndLeaving", "EndRemoved",
	}
	if s < 0 || int(s) >= memberSteps {
		return names[0]
	}
	return names[s]
}

// NextStep returns the next step. The sidecar calls it again after each step,
// after each start, and whenever a fact changed.
func NextStep(f Facts) Step {
	switch {
	case f.Phase == Working && f.Known && !f.Wanted:
		return BeginLeaving
	case f.Phase == Adding:
		return nextAdding(f)
	case f.Phase == Leaving:
		return nextLeaving(f)
	case f.Phase == WithoutMember && f.Data:
		return MoveData // before it is added: etcd would start with the log of a member that was removed
	case f.Phase == WithoutMember && f.Known && f.Wanted:
		return BeginAdding
	}
	return AsIs
}

func nextAdding(f Facts) Step {
	switch {
	case f.Known && !f.Wanted:
		return BeginLeaving // below, it would become a voter first, whose removal needs a majority
	case f.Data && !f.Runs && f.Listed != NotListed:
		return StartMember // it may vote already, and a majority may need it
	case f.Listed == ListedUnknown:
		return AskMembers // all that follows decides by the list
	case f.Listed == NotListed && !f.Data && !f.Runs && f.Removed:
		return EndRemoved // before the next case, which the cluster would refuse for ever
	case f.Listed == NotListed && !f.Data && !f.Runs:
		return AddLearner // before the next case, for which it would be one that was removed
	case f.Listed == NotListed, f.Decided, f.Listed == ListedVoter && !f.Data:
		return BeginLeaving // it begins again, as another member
	case !f.Runs:
		return StartMember
	case f.Listed == ListedLearner:
		return AwaitVote
	}
	return EndAdding
}

func nextLeaving(f Facts) Step {
	mayReturn := f.Known && f.Wanted && !f.Decided
	switch {
	case f.Data && !f.Runs && f.Listed != NotListed:
		return StartMember // it votes until it is removed, and a majority may need it
	case f.Listed == ListedUnknown:
		return AskMembers // all that follows decides by the list
	case f.Listed == NotListed && f.Runs:
		return StopMember // before its data is moved, into which it may still write
	case f.Listed == NotListed && f.Data:
		return MoveData // before the disk says that there is no member: a start would find data of one
	case f.Listed == NotListed && f.Removed:
		return EndRemoved // before the next case, after which it would be a node whose key is refused
	case f.Listed == NotListed:
		return EndLeaving
	case mayReturn && f.Listed == ListedVoter && f.Data:
		return EndAdding // it votes still, and people want it again
	case mayReturn && f.Listed == ListedLearner:
		return BeginAdding
	case !f.Known && !f.Decided:
		return AsIs // no user is known to want it removed
	}
	return RemoveMember
}
