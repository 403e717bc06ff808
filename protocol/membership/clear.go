package membership

// This file decides when etcd's data may be removed from a node's data directory
// (docs/protocol-membership.md#clear).

// MarkerFacts describe that data, as known from the node's marker, the disk, and the members'
// list.
type MarkerFacts struct {
	// Entering: the node was never a working member. Its first member is being made; Phase is
	// unset.
	Entering bool
	// Founds: that member is to be the first of a new cluster.
	Founds bool
	Phase  Phase
	Log    bool // the data includes an etcd log
	// Founded: the log of a new cluster contains its first member.
	Founded bool
	// Replaced: the data belongs to a member, and the cluster lists another one for this node.
	Replaced bool
	Listed   Listed
	Runs     bool // the member's process runs, or may run
}

// MayClear reports whether the data may be deleted, or moved to where a later removal
// deletes it. The data of a member that may vote is kept, even if it is damaged.
func MayClear(f MarkerFacts) bool {
	switch {
	case f.Runs:
		return false // whatever the phase: the process writes into it
	case f.Entering && f.Founds:
		return !f.Log || !f.Founded // else this may be the only copy of a cluster in use
	case f.Entering:
		return !f.Log || f.Replaced
	case f.Phase == Adding:
		return !f.Log // else it may have become a voter a moment ago
	case f.Phase == Leaving, f.Phase == WithoutMember:
		return f.Listed == NotListed
	}
	return false
}
