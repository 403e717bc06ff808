package protocol

// Tells reports whether a record says what local runs: release, constraint,
// boot, and when leaders may pass over it. Only then does a status that is read
// afterwards open the gate (4.2).
func Tells(r Record, local Local, bootID string) bool {
	return r.Problem == "" && r.Node.ID == local.ID &&
		r.Node.Version == local.Version &&
		r.Node.MinReconciler == local.Constraints.MinReconciler &&
		r.Node.BootID == bootID &&
		r.Node.FenceAfter == local.FenceAfter
}

// Registers reports whether this node has to register again, from its record
// as it was found and the state of it that was judged last: it is gone, tells
// something else, its controller role changed, or it was written more than once
// in between, so that nobody knows what it told meanwhile. A role that people
// took away is not taken back, but that is a new registration, and so is giving
// it again (4.2).
func Registers(found bool, r, last Record, local Local, bootID string) bool {
	return !found || !Tells(r, local, bootID) ||
		r.Node.Roles.Controller != last.Node.Roles.Controller ||
		r.Created != last.Created || r.Writes > last.Writes+1
}

// YieldsID reports whether a sidecar has to give up its node ID to the one
// whose presence was found under it (4.9). On one machine the newest wins; a
// newcomer from another machine is refused while the presence lives. held says
// that this instance has had the presence before, so the other came later.
func YieldsID(found Presence, instance, machineID string, held bool) bool {
	if found.Instance == instance || found.Instance == "" {
		return false
	}
	sameMachine := machineID != "" && found.MachineID == machineID
	return held || !sameMachine
}
