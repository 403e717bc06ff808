package rollout

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Deadlock says why a rolling upgrade from one release to another cannot
// complete; empty: it can. At least one of the constraints must be at or below
// the old release (docs/protocol.md#releases-that-can-roll).
func Deadlock(from, to protocol.Release, c protocol.Constraints) string {
	if !from.Less(to) || !from.Less(c.MinReconciler) || !from.Less(c.MinAPIServer) {
		return ""
	}
	return fmt.Sprintf("cannot be rolled out from %s: minReconcilerRelease %s and minApiserverRelease %s are both above it, "+
		"so the first upgraded node waits for the new objects, and the objects wait for the last old node; "+
		"raise one of the two in an earlier release", from, c.MinReconciler, c.MinAPIServer)
}

// RollbackRisk says why going back after an upgrade would be an outage; empty: it
// would not (docs/protocol.md#releases-that-can-roll).
func RollbackRisk(from, to protocol.Release, c protocol.Constraints) string {
	if !from.Less(to) || !from.Less(c.MinAPIServer) {
		return ""
	}
	risk := fmt.Sprintf("rolling back to %s is an outage once every node has left it: minApiserverRelease %s is above it, "+
		"so no node of %s is ready until all nodes are back on it", from, c.MinAPIServer, from)
	if from.Less(c.MinReconciler) {
		return risk
	}
	return fmt.Sprintf("%s; without an outage, type before you go back: sidecar rollback begin --to %s", risk, from)
}
