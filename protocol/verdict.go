package protocol

import "fmt"

// Facts are what the gate judges from (DESIGN 4.8).
type Facts struct {
	Stopping  bool   // the sidecar was told to stop
	Duplicate string // not empty: who else has this node's ID
	Reached   bool   // etcd has answered at least once
	Local     Local

	Registration Registration
	// Status was read linearizably at a revision that is not below that of the
	// registration, or came later; Kind is StatusUnknown where that has not
	// happened yet (4.2).
	Status StatusView
	// Served is the last verdict's Ready, while the registration it rests on
	// still stands. A gate that is ready stays so when the status is lost.
	Served bool
}

// Registration is what is known of the own record.
type Registration struct {
	Controller bool  // the record has the controller role
	Confirmed  bool  // the record tells what this sidecar runs
	Revision   int64 // r of 4.2: of the write that made it tell so; 0 while not confirmed
	// Fenced: the presence was not confirmed for so long that leaders may soon
	// pass over the record. It stands until the record is written again (4.9), and
	// never where Confirmed does.
	Fenced bool
}

// Verdict is the gate's answer. The zero value is not ready, without a reason.
type Verdict struct {
	Ready   bool
	Reason  Reason
	Message string
}

// Judge turns registration and status into a verdict. It is total. It fails
// static: a node that serves goes on while the status is lost or corrupt, for
// the leader waits for records, not for connections, so that is safe (4.8).
func Judge(f Facts) Verdict {
	switch {
	case f.Stopping:
		return Verdict{Reason: ShuttingDown, Message: "the sidecar was told to stop"}
	case f.Duplicate != "":
		return Verdict{Reason: DuplicateNodeID, Message: f.Duplicate}
	case !f.Reached:
		return Verdict{Reason: Starting, Message: "etcd has not been reached yet"}
	case f.Registration.Fenced:
		return Verdict{Reason: Fenced, Message: fmt.Sprintf(
			"the presence of this node was not confirmed for %s: leaders may pass over it once it has been gone for %s; it registers again when etcd answers",
			f.Local.FenceAfter/2, f.Local.FenceAfter)}
	case !f.Registration.Confirmed:
		return Verdict{Reason: NotRegistered, Message: "the node record does not tell yet what this node runs"}
	case !f.Registration.Controller:
		return Verdict{Reason: NotController, Message: fmt.Sprintf(
			"this node does not have the role kubernetes_controller; to give it: sidecar node set-roles %s kubernetes_controller", f.Local.ID)}
	}
	return judgeStatus(f)
}

func judgeStatus(f Facts) Verdict {
	switch f.Status.Kind {
	case StatusPresent:
		return admitted(f)
	case StatusAbsent:
		if f.Served {
			return Verdict{Ready: true, Reason: Ready, Message: "the status is missing; ready on what was last known, until the leader rebuilds it"}
		}
		return Verdict{Reason: StatusMissing, Message: "there is no reconciler status: no leader has finished its first reconciliation, or it was lost and is being rebuilt"}
	case StatusUndecodable:
		if f.Served {
			return Verdict{Ready: true, Reason: Ready, Message: "the status is corrupt; ready on what was last known, until the leader rebuilds it"}
		}
		return Verdict{Reason: StatusCorrupt, Message: "the reconciler status cannot be decoded (" + f.Status.Problem + "); the leader rebuilds it"}
	case StatusUnknown:
	}
	return Verdict{Reason: NotRegistered, Message: fmt.Sprintf(
		"registered at revision %d; the status has not been read at or after it yet", f.Registration.Revision)}
}

func admitted(f Facts) Verdict {
	s, own := f.Status.Status, f.Local.Version.Release
	node := Node{ID: f.Local.ID, Version: f.Local.Version, MinReconciler: f.Local.Constraints.MinReconciler}
	ok, reason := Admits(s, node)
	switch {
	case ok:
		return Verdict{Ready: true, Reason: Ready, Message: fmt.Sprintf("release %s fits the objects (%s, reconciler %s, minimum %s)", own, s.State, s.Version, s.MinCompatible)}
	case reason == ReleaseTooOld:
		return Verdict{Reason: reason, Message: fmt.Sprintf("release %s is below %s, the minimum for the objects as they are; upgrade this node", own, s.MinCompatible)}
	}
	return Verdict{Reason: reason, Message: fmt.Sprintf("the objects are at reconciler release %s; this node needs %s or newer and waits for the leader", s.Version.Release, node.MinReconciler)}
}

// Closed reports whether a change of the status closed the gate of a node that
// served: the invariant Steady does not hold, which is an alarm (4.8). A status
// that people write by hand can do it too.
func Closed(was, now Verdict) bool {
	return was.Ready && !now.Ready && (now.Reason == ReleaseTooOld || now.Reason == ReconcilerTooOld)
}
