package protocol

import (
	"cmp"
	"fmt"
	"slices"
)

// UpgradeObstacle is why the next upgrade must not start.
type UpgradeObstacle struct {
	Reason  Reason
	Node    NodeID // that it is about; empty: no single node
	Message string // what is wrong, and what to do
}

// UpgradeReady reports whether the next upgrade may start: nothing holds it
// (docs/protocol.md#upgrade-ready).
func UpgradeReady(v StatusView, f Fleet) bool { return len(UpgradeObstacles(v, f)) == 0 }

// UpgradeObstacles returns why the next upgrade must not start, what lasts longest
// first (docs/protocol.md#upgrade-ready).
func UpgradeObstacles(v StatusView, f Fleet) []UpgradeObstacle {
	var out []UpgradeObstacle
	for _, r := range f.Records {
		if r.Problem != "" {
			out = append(out, UpgradeObstacle{Reason: RecordCorrupt, Node: r.ID, Message: "its record is corrupt: " + r.Remedy()})
		}
	}
	if message := unsettled(v, f); message != "" {
		out = append(out, UpgradeObstacle{Reason: UpgradeUnderWay, Message: message})
	}
	if !slices.ContainsFunc(f.Records, func(r *Record) bool { return r.aliveController() && r.Presence.Election == Leading }) {
		out = append(out, UpgradeObstacle{Reason: NoLeader, Message: "no node leads"})
	}
	for _, r := range f.Records {
		if LacksGate(r) {
			out = append(out, UpgradeObstacle{Reason: NoGate, Node: r.ID, Message: NoGateMessage(r)})
		}
	}
	for _, r := range f.Records {
		if r.aliveController() && r.Node.Cordon.On() {
			out = append(out, UpgradeObstacle{Reason: Cordoned, Node: r.ID, Message: fmt.Sprintf(
				"it was taken out of service %s; to end that: sidecar uncordon %s", r.Node.Cordon, r.ID)})
		}
	}
	out = append(out, closedGates(v, f)...)
	for _, m := range Mismatched(f) {
		out = append(out, UpgradeObstacle{Reason: BundlesDiffer, Message: fmt.Sprintf("nodes of release %s have different bundles: %s", m.Release, m)})
	}
	for _, w := range RunDifferences(f) {
		out = append(out, UpgradeObstacle{Reason: w.Reason, Node: NodeID(w.Subject), Message: w.Message})
	}
	return append(out, reported(f)...)
}

// VoterObstacles returns the voters for which the next upgrade has to wait: those that are
// down, if fewer than a majority would answer while it stops another one
// (docs/protocol.md#upgrade-ready). One or two voters that are healthy hold nothing.
func VoterObstacles(voters []NodeVoter) []UpgradeObstacle {
	var out []UpgradeObstacle
	for _, v := range voters {
		if !v.Healthy {
			out = append(out, UpgradeObstacle{Reason: MemberDown, Node: NodeID(v.Name), Message: fmt.Sprintf(
				"%s; an upgrade stops another voter, and etcd would accept no writes meanwhile", cmp.Or(v.Trouble, "its etcd member is not healthy"))})
		}
	}
	if healthy := len(voters) - len(out); healthy-1 >= Majority(len(voters)) {
		return nil
	}
	return out
}

// closedGates returns the alive controllers whose gate is closed: an upgrade closes
// another one, and it may be the last that is open. A gate that the status keeps closed is
// part of an upgrade that is under way: it holds the next one only when that is complete.
func closedGates(v StatusView, f Fleet) []UpgradeObstacle {
	underWay := unsettled(v, f) != ""
	var out []UpgradeObstacle
	for _, r := range f.Records {
		p := r.Presence
		if !r.aliveController() || p.Ready || LacksGate(r) || r.Node.Cordon.On() || underWay && byStatus(p.Reason) {
			continue
		}
		out = append(out, UpgradeObstacle{Reason: GateClosed, Node: r.ID, Message: fmt.Sprintf(
			"its gate is closed (%s), and an upgrade closes another one: see GATE in the sidecar status of that node", p.Reason)})
	}
	return out
}

// byStatus reports whether a gate is closed for a reason that the leader's next status
// may remove.
func byStatus(reason Reason) bool {
	switch reason {
	case StatusMissing, StatusCorrupt, ReleaseTooOld, ReconcilerTooOld:
		return true
	default:
		return false
	}
}

// ObstacleReasons lists every reason of an UpgradeObstacle, and the two that only a sidecar
// knows: that it does not reach etcd, or that etcd is full. It is for documentation.
func ObstacleReasons() []Reason {
	return []Reason{
		EtcdUnreachable, EtcdFull, MemberDown, RecordCorrupt, UpgradeUnderWay, NoLeader, NoGate, Cordoned, GateClosed, Overridden,
		BundlesDiffer, APIServersDiffer, ServicesDiffer, BundleRejected, ServiceFailing, RemovalsHeld,
	}
}

// LacksGate reports whether a controller is alive and reports no gate.
func LacksGate(r *Record) bool { return r.aliveController() && r.Presence.Reason == "" }

// NoGateMessage says what that means, and what to do.
func NoGateMessage(r *Record) string {
	where := ""
	if r.Presence.Host != "" {
		where = " on host " + r.Presence.Host
	}
	return fmt.Sprintf("it is alive%s but reports no gate; check the log of its sidecar, and whether two sidecars run with --node-id=%s", where, r.ID)
}

// reported returns what alive controllers report of themselves and holds the next
// upgrade.
func reported(f Fleet) []UpgradeObstacle {
	var out []UpgradeObstacle
	for _, r := range f.Records {
		if !r.aliveController() {
			continue
		}
		for _, w := range r.Presence.Warnings {
			switch {
			case w.Reason == BundleRejected, w.Reason == Overridden, w.Reason == ServiceFailing,
				w.Reason == RemovalsHeld && r.Presence.Election == Leading:
				out = append(out, UpgradeObstacle{Reason: w.Reason, Node: r.ID, Message: w.Message})
			}
		}
	}
	return out
}

func (r *Record) aliveController() bool { return r.Problem == "" && r.Node.Roles.Controller && r.Alive }

// Settled reports whether the last upgrade is complete: the status is DONE at the
// one release that all registered controllers have, there is at least one, and no
// record is corrupt.
func Settled(v StatusView, f Fleet) bool {
	return unsettled(v, f) == "" && !slices.ContainsFunc(f.Records, func(r *Record) bool { return r.Problem != "" })
}

// unsettled says why the last upgrade is not complete, apart from corrupt records;
// empty: it is.
func unsettled(v StatusView, f Fleet) string {
	switch v.Kind {
	case StatusUnknown:
		return "the status has not been read yet"
	case StatusAbsent:
		return "there is no status: no leader has finished the first reconciliation, or the status was lost"
	case StatusUndecodable:
		return "the status is corrupt; the leader rebuilds it"
	case StatusPresent:
	}
	if v.Status.State != Done {
		return fmt.Sprintf("the status is %s at %s, not DONE", v.Status.State, v.Status.Version.Release)
	}
	return otherRelease(v.Status.Version.Release, f)
}

// otherRelease says which controller does not have the release of a status that is
// DONE, and what to do; empty: all have it.
func otherRelease(done Release, f Fleet) string {
	var other, newest *Record
	for _, r := range f.Records {
		if r.Problem != "" || !r.MayServe() {
			continue
		}
		if newest == nil || newest.Node.Version.Release.Less(r.Node.Version.Release) {
			newest = r
		}
		if other == nil && r.Node.Version.Release != done {
			other = r
		}
	}
	if newest == nil {
		return "no controller is registered"
	}
	latest := newest.Node.Version.Release
	for _, r := range f.Records { // an old node rather than a new one: it is what the upgrade waits for
		if r.Problem == "" && r.MayServe() && r.Node.Version.Release.Less(latest) {
			return fmt.Sprintf("an upgrade is in progress: %s runs release %s, %s runs %s; %s",
				r.ID, r.Node.Version.Release, newest.ID, latest, olderRemedy(r, newest))
		}
	}
	if other != nil {
		return fmt.Sprintf("the status is DONE at %s, and all controllers run %s: the leader has not applied its bundle yet", done, latest)
	}
	return ""
}

// olderRemedy says what to do about a node that is older than the newest one.
func olderRemedy(r, newest *Record) string {
	switch {
	case r.Alive && inDeadlockWith(newest):
		return fmt.Sprintf("they wait for each other: roll %s back to %s", newest.ID, r.Node.Version.Release)
	case r.Alive:
		return "upgrade " + string(r.ID)
	}
	return fmt.Sprintf("%s is not alive: upgrade it, or if it has stopped for good: %s", r.ID, r.RemovalCommand())
}

// inDeadlockWith reports whether a node leads, waits for older nodes, and reports that
// it is not ready before the objects are new
// (docs/protocol.md#releases-that-can-roll).
func inDeadlockWith(leader *Record) bool {
	p := leader.Presence
	return leader.Alive && p.Election == Leading && p.Reason == ReconcilerTooOld &&
		slices.ContainsFunc(p.Warnings, func(w Warning) bool { return w.Reason == ReleaseTooOld })
}
