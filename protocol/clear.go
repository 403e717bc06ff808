package protocol

// This file says when the data that etcd has in a node's data directory may be taken away
// (docs/protocol.md#clear).

// MarkerFacts are what a node knows of that data: from its marker, the disk, and the list of
// the members.
type MarkerFacts struct {
	// Entering: the node was never a working member. Its first one is being made; Phase is
	// unset.
	Entering bool
	// Founds: that one is to be the first of a new cluster.
	Founds bool
	Phase  MemberPhase
	Log    bool // etcd has a log there
	// Founded: the log of a new cluster has its first member.
	Founded bool
	// Replaced: the data is of a member, and the cluster has another one for this node.
	Replaced bool
	Listed   Listed
	Runs     bool // the member's process runs, or may run
}

// MayClear reports whether the data may be deleted, or moved to where a later removal
// deletes it. What a member that may vote has stored is kept, whatever is wrong with it.
func MayClear(f MarkerFacts) bool {
	switch {
	case f.Runs:
		return false
	case f.Entering && f.Founds:
		return !f.Log || !f.Founded // else the only copy of a cluster that may be in use
	case f.Entering:
		return !f.Log || f.Replaced
	case f.Phase == AddingMember:
		return !f.Log // else it may vote since a moment ago
	case f.Phase == LeavingMember, f.Phase == WithoutMember:
		return f.Listed == NotListed
	}
	return false
}
