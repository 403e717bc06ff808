package membership

// Standing describes how the cluster knows a node that asks for the CA's key, or for a new
// certificate (docs/protocol-membership.md#membership).
type Standing struct {
	// Listed is how the members' list shows the member with this node's key.
	Listed Listed
	// Leaving: that member is being removed.
	Leaving bool
	// Removed: a member with this node's key was removed by an operator.
	Removed bool
	// Rotating: the CA is being replaced, so a certificate of the old CA proves little.
	// Reported: a node with this name reported this key in the rotation.
	Rotating, Reported bool
}

// MayRenew reports whether the node gets a new certificate for its name and address. A node that
// left the members together with its role gets one too. While the CA is being replaced, the node's
// key must be known: a user with the old CA's key can sign a certificate for any name.
func (s Standing) MayRenew() bool {
	known := s.Listed == ListedLearner || s.Listed == ListedVoter || s.Reported
	return !s.Removed && (!s.Rotating || known)
}

// MaySign reports whether the node gets the key of the cluster's CA: only a voter that
// stays. The zero Standing does not.
func (s Standing) MaySign() bool {
	return !s.Removed && !s.Leaving && s.Listed == ListedVoter
}
