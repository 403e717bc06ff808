package protocol

// Standing is what the cluster has of a node that asks for what is needed to sign, or for a
// new certificate (docs/protocol.md#membership).
type Standing struct {
	// Listed is what the list of the members has of the member with this node's key.
	Listed Listed
	// Leaving: that member is being removed.
	Leaving bool
	// Removed: a member with this node's key was removed by an operator.
	Removed bool
}

// MayRenew reports whether the node gets a new certificate for its name and address. A node
// that has left the members with its role may.
func (s Standing) MayRenew() bool { return !s.Removed }

// MaySign reports whether the node gets the key of the cluster's CA: only a voter that
// stays. The zero Standing does not.
func (s Standing) MaySign() bool { return !s.Removed && !s.Leaving && s.Listed == ListedVoter }
