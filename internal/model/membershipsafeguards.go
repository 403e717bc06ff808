package model

// memberSafeguard is a part of the rules that a search can turn off.
type memberSafeguard uint32

const (
	// A removal is written only if no record changed since it was judged.
	removalGuard memberSafeguard = 1 << iota
	// Voters whose removal was decided do not count as staying.
	leavingCounted
	// Voters that do not answer do not count.
	healthCounted
	// Data is moved away only when the list shows that the member was removed.
	askedFirst
	// A member that leaves runs until it was removed.
	leavingRuns
	// The data of a member that was removed is moved away.
	dataMoved
	// A removal that was decided is carried out.
	decidedStays
	// The files of an etcd that made no log are deleted before the next one begins.
	unbegunCleared
	// A log is never deleted while the node becomes a member.
	logKept
	// Only a learner with the whole log becomes a voter.
	learnerInSync
	// The record of an evicted learner shows that it is leaving, before etcd is asked.
	evictionRecorded
	// A node is not added while another member uses its address.
	addressFree
	// The node with its address takes over a learner without a record.
	unrecordedAdopted
	// It does not take over one that is being removed.
	leavingNotAdopted
	// A node that joins, and receives nothing from other members, asks again whether it is one.
	asksAgain
	// The data of a member that was removed is deleted before the node is another one.
	replacedCleared
	// A node with the directory of another cluster becomes no member.
	sameCluster
	// A node on which the cluster is restored gets the role of a member.
	roleGiven
	// A node that joins gets the role of a member.
	joinGivesRole
	// People stop a voter for an upgrade only if the others are a majority.
	obstaclesAsked
	// While the sidecar beside etcd's leader hangs, another one makes voters of learners.
	standsIn
	// That one makes no voter of a learner whose removal was decided.
	standInWaits
	// Nor does it remove a learner.
	standInEvictsNone
	// A node whose removal was decided leaves, also if it has the role again.
	decidedLeaves
	// A node that an operator removed for good ends, whatever it was doing.
	refusedEnds
)
