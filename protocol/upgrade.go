package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// UpgradeFacts are the input of JudgeUpgrade.
type UpgradeFacts struct {
	Unreachable bool // etcd does not answer: the rest may be out of date
	Full        bool // the database of etcd is full
	Status      StatusView
	Fleet       Fleet
	Voters      []Voter   // of the etcd that the sidecars run; none: etcd runs elsewhere
	Overdue     []Warning // of which TurnOverdue counts: these turns are over their limit
}

// UpgradeAnswer says whether the next upgrade may start.
type UpgradeAnswer struct {
	Obstacles []Warning // why not, of which nodes, the longest lasting first; none: it may
	Notes     []string  // the costs of an upgrade in a fleet of this size
}

// Ready reports whether the next upgrade may start.
func (a UpgradeAnswer) Ready() bool { return len(a.Obstacles) == 0 }

// JudgeUpgrade says whether the next upgrade may start. Everything that shows or asks that
// takes it from here (docs/protocol.md#upgrade-ready).
func JudgeUpgrade(f UpgradeFacts) UpgradeAnswer {
	if f.Unreachable { // a view of the past proves nothing
		return UpgradeAnswer{Obstacles: []Warning{{
			Reason: EtcdUnreachable, Message: "etcd does not answer, so the state of the fleet is unknown",
		}}}
	}
	var out UpgradeAnswer
	if f.Full {
		out.Obstacles = append(out.Obstacles, Warning{
			Reason: EtcdFull, Message: "the database of etcd is full, so no node can register: see ETCD",
		})
	}
	out.Obstacles = slices.Concat(out.Obstacles, upgradeObstacles(f.Status, withVoters(f.Fleet, f.Voters)), VoterObstacles(f.Voters))
	for _, w := range f.Overdue {
		if w.Reason == TurnOverdue {
			out.Obstacles = append(out.Obstacles, w)
		}
	}
	out.Notes = upgradeNotes(f.Fleet, f.Voters)
	return out
}

// upgradeObstacles returns why the next upgrade must not start, as far as status and fleet
// show it.
func upgradeObstacles(v StatusView, f Fleet) []Warning {
	var out []Warning
	for _, r := range f.Records {
		if r.Problem != "" {
			out = append(out, Warning{Reason: RecordCorrupt, Subject: string(r.ID), Message: "its record is corrupt: " + r.Remedy()})
		}
	}
	out = append(out, rollbackObstacle(v, f)...)
	out = append(out, turnObstacles(f)...)
	// Before what may follow from it: no leader applies such a bundle, and its release may differ, too.
	for _, r := range f.Records {
		if text := ForeignBundle(v, r.Node.Bundle); text != "" && r.Problem == "" && r.Node.Roles.Controller {
			out = append(out, Warning{Reason: OtherBundle, Subject: string(r.ID), Message: "it " + text})
		}
	}
	if message := unsettled(v, f); message != "" {
		out = append(out, Warning{Reason: UpgradeUnderWay, Message: message})
	}
	if !slices.ContainsFunc(f.Records, func(r *Record) bool { return r.aliveController() && r.Presence.Election == Leading }) {
		out = append(out, Warning{Reason: NoLeader, Message: "no node leads"})
	}
	out = append(out, failingObjects(f)...)
	for _, r := range f.Records {
		if r.missing() {
			out = append(out, Warning{Reason: NodeDead, Subject: string(r.ID), Message: r.deadMessage()})
		}
	}
	out = append(out, outage(v, f)...)
	out = append(out, outOfServiceNow(v, f)...)
	for _, m := range MismatchedBundles(v, f) {
		out = append(out, Warning{Reason: BundlesDiffer, Message: m.Bundles()})
	}
	return slices.Concat(out, runDifferences(f), reported(f))
}

// missing reports whether a node whose gate may open is not alive, and people must do
// something about it: the leader deletes the record of an ephemeral one.
func (r *Record) missing() bool {
	deleted := r.Node.Ephemeral && r.Node.ExpireAfter > 0 && deletable(r.Node.Roles)
	return r.Problem == "" && r.MayServe() && !r.Alive && !deleted
}

// needed reports whether a node belongs to the size of the fleet: a controller that is
// alive, or should be.
func (r *Record) needed() bool { return r.aliveController() || r.missing() }

// deadMessage is the remedy for a missing node. Until RemoveAfter it may be restarting, so no removal is proposed.
func (r *Record) deadMessage() string {
	if r.MayRestart {
		return "it is not alive; start it again, unless it is restarting"
	}
	return "it is not alive; start it again, or if it has stopped for good: " + r.departureCommands()
}

// failingObjects names the objects that the leader cannot apply, and where to look.
func failingObjects(f Fleet) []Warning {
	var out []Warning
	for _, r := range f.Records {
		p := r.Presence
		if !r.aliveController() || p.Election != Leading || p.Failing == 0 {
			continue
		}
		var named []string
		for _, w := range p.Warnings {
			if w.Reason == ObjectFailed && w.Subject != "" && len(named) < p.Failing {
				named = append(named, w.Subject)
			}
		}
		message := fmt.Sprintf("%d objects fail", p.Failing)
		if p.Failing == 1 {
			message = "1 object fails"
		}
		if len(named) > 0 {
			message += ": " + strings.Join(named, ", ")
		}
		if more := p.Failing - len(named); more > 0 && len(named) > 0 {
			message += fmt.Sprintf(" and %d more", more)
		}
		message += fmt.Sprintf(" (see FAILURES on %s)", r.ID)
		out = append(out, Warning{Reason: ObjectFailed, Subject: string(r.ID), Message: message})
	}
	return out
}

// outage says that no kube-apiserver would serve while one node is stopped. In a fleet of
// one, that is no obstacle: it could never be upgraded. A gate that the upgrade under way
// keeps closed counts as open.
func outage(v StatusView, f Fleet) []Warning {
	underWay := unsettled(v, f) != ""
	controllers, serving := 0, []NodeID{}
	for _, r := range f.Records {
		if !r.needed() {
			continue
		}
		controllers++
		opens := underWay && r.aliveController() && byStatus(r.Presence.Reason) && !r.Node.Cordon.On()
		if r.Serves() || opens {
			serving = append(serving, r.ID)
		}
	}
	switch {
	case controllers < 2 || len(serving) > 1:
		return nil
	case len(serving) == 0:
		return []Warning{{Reason: Outage, Message: "no node serves: no gate with a ready kube-apiserver is open"}}
	}
	return []Warning{{Reason: Outage, Subject: string(serving[0]), Message: fmt.Sprintf(
		"it is the only one of %d controllers that serves: while it is stopped, no kube-apiserver does", controllers)}}
}

// outOfServiceNow names the controllers that are alive and do not serve, or cannot lead: an
// upgrade takes another one out of service, and it may be the last.
func outOfServiceNow(v StatusView, f Fleet) []Warning {
	var out []Warning
	for _, r := range f.Records {
		if LacksGate(r) {
			out = append(out, Warning{Reason: NoGate, Subject: string(r.ID), Message: noGateMessage(r)})
		}
	}
	for _, r := range f.Records {
		if r.aliveController() && r.Node.Cordon.On() && !r.Node.Cordon.Turn { // that is TurnUnderWay
			out = append(out, Warning{Reason: Cordoned, Subject: string(r.ID), Message: fmt.Sprintf(
				"it was taken out of service %s; to end that: %s", r.Node.Cordon, r.Node.Cordon.Remedy(r.ID))})
		}
	}
	out = append(out, closedGates(v, f)...)
	for _, r := range f.Records {
		if r.InService() && !r.Serves() {
			_, cause := r.Presence.notReady()
			out = append(out, Warning{Reason: APIServerNotReady, Subject: string(r.ID), Message: cause + ", " +
				"so it does not serve, and an upgrade stops another one: see the sidecar status of that node"})
		}
	}
	for _, r := range f.Records {
		if r.aliveController() && r.Presence.Ready && r.Presence.Election == Withdrawn {
			out = append(out, Warning{Reason: NodeWithdrawn, Subject: string(r.ID), Message: "its sidecar cannot work with its kube-apiserver, and has withdrawn from the election: " +
				"the sidecar status of that node says why; repair that first"})
		}
	}
	return out
}

// closedGates returns the alive controllers whose gate is closed: an upgrade closes
// another one, and it may be the last that is open. A gate that the status keeps closed is
// part of an upgrade that is under way: it holds the next one only when that is complete.
func closedGates(v StatusView, f Fleet) []Warning {
	underWay := unsettled(v, f) != ""
	var out []Warning
	for _, r := range f.Records {
		p := r.Presence
		if !r.aliveController() || p.Ready || LacksGate(r) || r.Node.Cordon.On() || underWay && byStatus(p.Reason) {
			continue
		}
		out = append(out, Warning{Reason: GateClosed, Subject: string(r.ID), Message: fmt.Sprintf(
			"its gate is closed (%s), and the upgrade would close a second gate: see GATE in the sidecar status of that node", p.Reason)})
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

// ObstacleReasons lists every reason of an obstacle, for documentation.
func ObstacleReasons() []Reason {
	return []Reason{
		EtcdUnreachable, EtcdFull, MemberDown, RecordCorrupt, RollingBack, TurnUnderWay, TurnOverdue, UpgradeUnderWay,
		NoLeader, ObjectFailed, NodeDead, Outage, NoGate,
		Cordoned, GateClosed, APIServerNotReady, NodeWithdrawn, Overridden, OtherBundle, BundlesDiffer, APIServersDiffer, ServicesDiffer,
		BundleRejected, ServicesRejected, ServiceFailing, ServiceNotReady, RemovalsHeld, OtherStore, ReconcilerRuns, OtherWriter,
	}
}

// LacksGate reports whether a controller is alive and reports no gate.
func LacksGate(r *Record) bool { return r.aliveController() && r.Presence.Reason == "" }

// noGateMessage explains a missing gate, and says how to find the cause.
func noGateMessage(r *Record) string {
	where := ""
	if r.Presence.Host != "" {
		where = " on host " + r.Presence.Host
	}
	return fmt.Sprintf("it is alive%s but reports no gate; check the log of its sidecar, and whether two sidecars run with --node-id=%s", where, r.ID)
}

// reported returns the warnings of alive controllers that hold the next upgrade.
func reported(f Fleet) []Warning {
	var out []Warning
	for _, r := range f.Records {
		if !r.aliveController() {
			continue
		}
		for _, w := range r.Presence.Warnings {
			if holdsUpgrade(w.Reason) || w.Reason == RemovalsHeld && r.Presence.Election == Leading {
				out = append(out, Warning{Reason: w.Reason, Subject: string(r.ID), Message: w.Message})
			}
		}
	}
	return out
}

// holdsUpgrade reports whether a warning of a node holds the next upgrade: the problem
// gets worse when a sidecar is started again, or another node stops.
func holdsUpgrade(reason Reason) bool {
	switch reason {
	case BundleRejected, ServicesRejected, Overridden, ServiceFailing, ServiceNotReady, OtherStore, ReconcilerRuns, OtherWriter:
		return true
	default:
		return false
	}
}

func (r *Record) aliveController() bool { return r.Problem == "" && r.Node.Roles.Controller && r.Alive }
