package protocol

import "fmt"

// Facts are the input of Judge (docs/protocol-nodes.md#gate).
type Facts struct {
	Stopping  bool   // the sidecar is shutting down
	Duplicate string // not empty: who else uses this node's ID
	Reached   bool   // etcd answered at least once
	// Services is not empty while the services of this node keep the gate closed: why
	// (docs/protocol-nodes.md#services).
	Services string
	// APIServer is not empty while the kube-apiserver of this node keeps it from registering:
	// why (docs/protocol-nodes.md#apiserver-version).
	APIServer string
	Local     Local

	Registration Registration
	// Status was read linearizably at or after the revision of the registration.
	// Kind is StatusUnknown until then (docs/protocol-nodes.md#registration).
	Status StatusView
	// Served: the last verdict was Admitted, for as long as its registration is valid.
	// A gate that is ready stays ready when the status is lost.
	Served bool
	// Override is the one in force; zero: none.
	Override Override
}

// Registration is the sidecar's knowledge of this node's record.
type Registration struct {
	Controller bool   // the record lists the controller role
	Cordon     Cordon // in the record
	Matches    bool   // the record matches this sidecar
	Revision   int64  // of the write that made it match; 0 while it does not
	// Rewinds is how often the store went back before that write. A status of
	// another history of the store does not count (docs/protocol-nodes.md#went-back).
	Rewinds int
	// Overdue: the presence was not confirmed for so long that leaders may soon
	// ignore the record. It lasts until the record is written again, and is never
	// true together with Matches (docs/protocol-nodes.md#dead-nodes).
	Overdue bool
}

// Verdict is the gate's answer. The zero value is not ready, without a reason.
type Verdict struct {
	Ready   bool
	Reason  Reason
	Message string
}

// Judge turns registration and status into a verdict. It is total. It fails
// static: a node that serves stays ready while the status is lost or corrupt. That
// is safe because the leader waits for records, not for connections
// (docs/protocol-nodes.md#gate). An override is outside of the protocol: nothing that it
// promises holds while a gate is open by one (docs/protocol-nodes.md#overrides).
func Judge(f Facts) Verdict { return overridden(judge(f), f) }

func judge(f Facts) Verdict {
	switch {
	case f.Stopping:
		return Verdict{Reason: ShuttingDown, Message: "the sidecar is shutting down"}
	// Before everything in the record: with two sidecars of one ID, it is the other one's.
	case f.Duplicate != "":
		return Verdict{Reason: DuplicateNodeID, Message: f.Duplicate}
	case !f.Reached:
		return Verdict{Reason: Starting, Message: "etcd has not been reached yet"}
	// Before the record counts for anything: leaders may ignore it already.
	case f.Registration.Overdue:
		return Verdict{Reason: Fenced, Message: fmt.Sprintf(
			"this node's presence has not been confirmed for %s, and leaders ignore its record after %s; %s",
			f.Local.ExpireAfter/2, f.Local.ExpireAfter, RegistersAgain)}
	// Before the services, which a node without the role does not start: it would wait for them for ever.
	case f.Registration.Matches && !f.Registration.Controller:
		return Verdict{Reason: NotController, Message: fmt.Sprintf(
			"this node does not have the role kubernetes_controller; to give it: sidecar node set-roles %s --add kubernetes_controller", f.Local.ID)}
	// Before the record, which is not written until they are ready: this is the cause, that the effect.
	case f.Services != "":
		return Verdict{Reason: ServicesNotReady, Message: f.Services}
	case f.APIServer != "" && !f.Registration.Matches:
		return Verdict{Reason: OtherAPIServer, Message: f.APIServer}
	case !f.Registration.Matches:
		return Verdict{Reason: NotRegistered, Message: "this node's record does not match what it runs yet"}
	// After the record, which contains the cordon. Before the status: a cordoned gate does not fail
	// static.
	case f.Registration.Cordon.On():
		return Verdict{Reason: Cordoned, Message: fmt.Sprintf(
			"this node was taken out of service %s; to end that now: %s", f.Registration.Cordon, f.Registration.Cordon.Remedy(f.Local.ID))}
	}
	return judgeStatus(f)
}

func judgeStatus(f Facts) Verdict {
	switch f.Status.Kind {
	case StatusPresent:
		return judgeAdmission(f)
	case StatusAbsent:
		if f.Served {
			return staysReady("missing")
		}
		return Verdict{Reason: StatusMissing, Message: "there is no reconciler status: " +
			"no leader has finished the first reconciliation, or the status was lost and is being rebuilt"}
	case StatusUndecodable:
		if f.Served {
			return staysReady("corrupt")
		}
		return Verdict{Reason: StatusCorrupt, Message: "the reconciler status cannot be decoded (" + f.Status.Problem + "); the leader rebuilds it"}
	case StatusUnknown:
	}
	return Verdict{Reason: NotRegistered, Message: "this node's record is written; the registration is complete when the status has been read since then"}
}

// staysReady is the verdict of a gate that fails static.
func staysReady(fault string) Verdict {
	return Verdict{Ready: true, Reason: Ready, Message: "the status is " + fault + "; ready by the last known status until the leader rebuilds it"}
}

// UpgradeOrRollBack begins the remedy of ReleaseTooOld, before the release of the node. A rollback that is under way is
// another one.
const UpgradeOrRollBack = "upgrade this node, or roll all nodes back to "

func judgeAdmission(f Facts) Verdict {
	s, own := f.Status.Status, f.Local.Version.Release
	node := Node{ID: f.Local.ID, Version: f.Local.Version, MinReconciler: f.Local.Constraints.MinReconciler}
	ok, reason := Admits(s, node)
	switch {
	case ok:
		return Verdict{Ready: true, Reason: Ready, Message: fmt.Sprintf(
			"release %s fits the objects (%s, release %s, minimum release %s)", own, s.State, s.Version, s.MinCompatible)}
	case reason == ReleaseTooOld:
		return Verdict{Reason: reason, Message: fmt.Sprintf(
			"release %s is below %s, the minimum that the objects need; %s%s", own, s.MinCompatible, UpgradeOrRollBack, own)}
	}
	return Verdict{Reason: reason, Message: fmt.Sprintf(
		"the objects are at release %s, and this node needs %s or newer; waiting for the leader", s.Version.Release, node.MinReconciler)}
}

// ViolatesSteady reports whether a change of the status closed the gate of a node
// that served. That violates the invariant Steady and is an alarm. A status that
// people write by hand can do it, too.
func ViolatesSteady(was, now Verdict) bool {
	return was.Admitted() && !now.Ready && (now.Reason == ReleaseTooOld || now.Reason == ReconcilerTooOld)
}

// RegistersAgain ends the message of a gate that is closed by Fenced. A caller that knows
// that etcd answers says something else in its place.
const RegistersAgain = "it registers again when etcd answers"
