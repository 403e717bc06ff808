package protocol

// Admits reports whether a node may serve while s is the status, and why not
// (docs/protocol.md#admission). The state does not matter: while the leader
// works, the status already admits only nodes that fit the objects before and
// after.
func Admits(s Status, n Node) (bool, Reason) {
	switch {
	case n.Version.Release.Less(s.MinCompatible):
		return false, ReleaseTooOld
	case s.Version.Release.Less(n.MinReconciler):
		return false, ReconcilerTooOld
	}
	return true, Ready
}
