package protocol

// Admits reports whether a node may serve while s is the status, and why not
// (DESIGN 4.1). WORKING does not matter: during work the status already admits
// only nodes that fit both the state before and the state after.
func Admits(s Status, n Node) (bool, Reason) {
	switch {
	case n.Version.Release.Less(s.MinCompatible):
		return false, ReleaseTooOld
	case s.Version.Release.Less(n.MinReconciler):
		return false, ReconcilerTooOld
	}
	return true, Ready
}
