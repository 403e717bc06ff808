package nodeservices

import "time"

// This file orders the start and the stop of the services that a node runs for the
// controller role (docs/protocol-nodes.md#services).

// Step is a sidecar's next step with the services of its node.
type Step string

// The steps.
const (
	// AwaitRoles: running services stay, until the node's roles are known.
	AwaitRoles Step = "AwaitRoles"
	// Idle: nothing runs, and nothing is wanted.
	Idle Step = "Idle"
	// CloseGate: close the gate, and wait until /readyz shows it.
	CloseGate Step = "CloseGate"
	// AwaitAddress: wait until the Service kubernetes no longer contains the node's
	// address.
	AwaitAddress Step = "AwaitAddress"
	// HandOver: give up the leadership, and wait until it is given up.
	HandOver Step = "HandOver"
	// AwaitDelay: wait until the shutdown delay is over.
	AwaitDelay Step = "AwaitDelay"
	// StopServices: stop all services that run, and wait for their end.
	StopServices Step = "StopServices"
	// StartServices: start the services that do not run.
	StartServices Step = "StartServices"
	// AwaitServices: wait until all of them are ready.
	AwaitServices Step = "AwaitServices"
	// Serve: all of them are ready. The node may register with the controller role,
	// and the gate may open.
	Serve Step = "Serve"
)

// Facts are the facts that a sidecar knows about its node's services.
type Facts struct {
	// Known: the node's roles are known, from its record or from the disk, or its sidecar
	// is stopping.
	Known bool
	// Wanted: the node has the role of these services, and its sidecar is not stopping.
	Wanted bool
	// Old: a service runs, or may run, that was started for another release.
	Old bool
	// Running: a service runs, or may run. It is true if Old is.
	Running bool
	// Complete: every service of the role runs.
	Complete bool
	// Ready: every service of the role runs and is ready.
	Ready bool

	// OtherAPIServer: the kube-apiserver of the node does not fit the bundle
	// (docs/protocol-nodes.md#apiserver-version).
	OtherAPIServer bool

	GateClosed bool // and /readyz shows it
	// Published: the address of the node is in the Service kubernetes, or may be, and may
	// still leave it. It is false without --kubernetes-service.
	Published bool
	Leads     bool // it may still hold the leader's key

	Closed        time.Duration // since the gate was open; if it never was, since the sidecar started
	ShutdownDelay time.Duration
}

// MaxAwaitAddress is how long after the gate closed a sidecar waits until the Service
// kubernetes no longer contains its node's address. etcd or the API may not answer.
const MaxAwaitAddress = 3 * time.Second

// Next returns the next step. The sidecar calls it again after each step,
// and whenever a fact changed. A service is stopped only behind a closed gate, and an
// old service ends before a new one starts.
func Next(f Facts) Step {
	leaves := !f.Wanted || f.Old
	switch {
	case !f.Known:
		return AwaitRoles // below, a node that merely cannot read its record would stop its services
	case leaves && !f.GateClosed:
		return CloseGate // before all else: load balancers need time to notice
	case leaves && f.Running && f.Published && f.Closed < MaxAwaitAddress:
		return AwaitAddress // below, pods would be sent to a kube-apiserver that stops
	case leaves && f.Leads:
		return HandOver // while its kube-apiserver still runs: a leader without one can only yield
	case leaves && f.Running && f.Closed < f.ShutdownDelay:
		return AwaitDelay // below, clients that did not notice the gate yet would get errors
	case leaves && f.Running:
		return StopServices // old ones end before the new ones start below
	case leaves:
		return Idle // below, they would start again
	case f.Ready:
		return Serve
	case f.Complete:
		return AwaitServices // they run: below, they would be started twice
	}
	return StartServices
}

// MayRegister reports whether the record may be written: no service of another release
// runs, and if the node has the controller role, all its services are ready, and its
// kube-apiserver is the one that the bundle is for. Wanted comes from the record that is
// about to be replaced: other knowledge of the roles may be older.
func MayRegister(f Facts) bool {
	return !f.Old && (!f.Wanted || f.Ready && !f.OtherAPIServer)
}
