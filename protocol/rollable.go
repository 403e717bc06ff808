package protocol

import "fmt"

// Deadlock says why a rolling upgrade from one release to another cannot end;
// empty: it can. One of the constraints has to be at or below the old release
// (DESIGN 4.10).
func Deadlock(from, to Release, c Constraints) string {
	if !from.Less(to) || !from.Less(c.MinReconciler) || !from.Less(c.MinApiserver) {
		return ""
	}
	return fmt.Sprintf("cannot be rolled out from %s: minReconcilerRelease %s and minApiserverRelease %s are both above it, so the first upgraded node waits for objects that wait for the last old node; "+
		"bring one of them with an earlier release of its own", from, c.MinReconciler, c.MinApiserver)
}

// OneWay says what an upgrade from one release to another takes away from the
// way back; empty: nothing (DESIGN 4.10).
func OneWay(from, to Release, c Constraints) string {
	if !from.Less(to) || !from.Less(c.MinApiserver) {
		return ""
	}
	return fmt.Sprintf("once the last node has left %s, going back to it is an outage: minApiserverRelease %s is above it, so nobody of %s is ready until all nodes are back on it", from, c.MinApiserver, from)
}
