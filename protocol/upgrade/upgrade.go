package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// Facts are the input of Judge.
type Facts struct {
	Unreachable bool // etcd does not answer: the rest may be out of date
	Full        bool // the database of etcd is full
	Status      protocol.StatusView
	Fleet       protocol.Fleet
	Voters      []protocol.Voter         // of the etcd that the sidecars run; none: etcd runs elsewhere
	Removed     []protocol.MemberRemoval // of members of it
	Overdue     []protocol.Warning       // of which TurnOverdue counts: these turns are over their limit
}

// Answer says whether the next upgrade may start.
type Answer struct {
	Obstacles []protocol.Warning // why not, of which nodes, the longest lasting first; none: it may
	Notes     []string           // the costs of an upgrade in a fleet of this size
}

// Ready reports whether the next upgrade may start.
func (a Answer) Ready() bool { return len(a.Obstacles) == 0 }

// Judge says whether the next upgrade may start. Everything that shows or asks that
// takes it from here (docs/protocol.md#upgrade-ready).
func Judge(f Facts) Answer {
	if f.Unreachable { // a view of the past proves nothing
		return Answer{Obstacles: []protocol.Warning{{
			Reason: warn.EtcdUnreachable, Message: "etcd does not answer, so the state of the fleet is unknown",
		}}}
	}
	var out Answer
	if f.Full {
		out.Obstacles = append(out.Obstacles, protocol.Warning{
			Reason: warn.EtcdFull, Message: "the database of etcd is full, so no node can register: see ETCD",
		})
	}
	out.Obstacles = slices.Concat(out.Obstacles, obstacles(f.Status, f.fleet()), VoterObstacles(f.Voters))
	for _, w := range f.Overdue {
		if w.Reason == warn.TurnOverdue {
			out.Obstacles = append(out.Obstacles, w)
		}
	}
	out.Notes = notes(f.Fleet, f.Voters)
	return out
}

// obstacles returns why the next upgrade must not start, as far as status and fleet
// show it.
func obstacles(v protocol.StatusView, f protocol.Fleet) []protocol.Warning {
	corrupt := func(r *protocol.Record) bool { return r.Problem != "" }
	out := ofNodes(f, protocol.RecordCorrupt, corrupt, func(r *protocol.Record) string { return "its record is corrupt: " + r.Remedy() })
	out = append(out, rollbackObstacle(v, f)...)
	out = append(out, turnObstacles(f)...)
	// Before what may follow from it: no leader applies such a bundle, and its release may differ, too.
	foreign := func(r *protocol.Record) bool { return r.Problem == "" && r.Node.Roles.Controller && isForeign(v, r) }
	out = append(out, ofNodes(f, warn.OtherBundle, foreign, func(r *protocol.Record) string {
		return "it " + protocol.ForeignBundle(v, r.Node.Bundle)
	})...)
	if message := leftToDo(v, f); message != "" {
		out = append(out, protocol.Warning{Reason: warn.UpgradeUnderWay, Message: message})
	}
	leads := func(r *protocol.Record) bool { return r.AliveController() && r.Presence.Election == protocol.Leading }
	if !slices.ContainsFunc(f.Records, leads) {
		out = append(out, protocol.Warning{Reason: warn.NoLeader, Message: "no node leads"})
	}
	out = append(out, failingObjects(f)...)
	out = append(out, ofNodes(f, warn.NodeDead, (*protocol.Record).Missing, (*protocol.Record).MissingRemedy)...)
	out = append(out, outage(v, f)...)
	out = append(out, outOfServiceNow(v, f)...)
	for _, m := range MismatchedBundles(v, f) {
		out = append(out, protocol.Warning{Reason: warn.BundlesDiffer, Message: m.Bundles()})
	}
	return slices.Concat(out, runDifferences(f), publish.Outside(f), reported(f))
}

// ofNodes returns a warning about each node of which a fact holds.
func ofNodes(
	f protocol.Fleet, reason protocol.Reason, holds func(*protocol.Record) bool, message func(*protocol.Record) string,
) (out []protocol.Warning) {
	for _, r := range f.Records {
		if holds(r) {
			out = append(out, protocol.Warning{Reason: reason, Subject: string(r.ID), Message: message(r)})
		}
	}
	return out
}

// needed reports whether a node belongs to the size of the fleet: a controller that is
// alive, or should be.
func needed(r *protocol.Record) bool { return r.AliveController() || r.Missing() }

// failingObjects names the objects that the leader cannot apply, and where to look.
func failingObjects(f protocol.Fleet) []protocol.Warning {
	var out []protocol.Warning
	for _, r := range f.Records {
		p := r.Presence
		if !r.AliveController() || p.Election != protocol.Leading || p.Failing == 0 {
			continue
		}
		var named []string
		for _, w := range p.Warnings {
			if w.Reason == warn.ObjectFailed && w.Subject != "" && len(named) < p.Failing {
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
		out = append(out, protocol.Warning{Reason: warn.ObjectFailed, Subject: string(r.ID), Message: message})
	}
	return out
}

// outage says that no kube-apiserver would serve while one node is stopped. In a fleet of
// one, that is no obstacle: it could never be upgraded. A gate that the upgrade under way
// keeps closed counts as open.
func outage(v protocol.StatusView, f protocol.Fleet) []protocol.Warning {
	underWay := unsettled(v, f) != ""
	controllers, serving := 0, []protocol.NodeID{}
	for _, r := range f.Records {
		if !needed(r) {
			continue
		}
		controllers++
		opens := underWay && r.AliveController() && byStatus(r.Presence.Reason) && !r.Node.Cordon.On()
		if r.Serves() || opens {
			serving = append(serving, r.ID)
		}
	}
	switch {
	case controllers < 2 || len(serving) > 1:
		return nil
	case len(serving) == 0:
		return []protocol.Warning{{Reason: warn.Outage, Message: "no node serves: no gate with a ready kube-apiserver is open"}}
	}
	return []protocol.Warning{{Reason: warn.Outage, Subject: string(serving[0]), Message: fmt.Sprintf(
		"it is the only one of %d controllers that serves: while it is stopped, no kube-apiserver does", controllers)}}
}

// outOfServiceNow names the controllers that are alive and do not serve, or cannot lead: an
// upgrade takes another one out of service, and it may be the last.
func outOfServiceNow(v protocol.StatusView, f protocol.Fleet) []protocol.Warning {
	cordoned := func(r *protocol.Record) bool {
		return r.AliveController() && r.Node.Cordon.On() && !r.Node.Cordon.Turn // that is TurnUnderWay
	}
	notReady := func(r *protocol.Record) bool { return r.InService() && !r.Serves() }
	withdrawn := func(r *protocol.Record) bool {
		return r.AliveController() && r.Presence.Ready && r.Presence.Election == protocol.Withdrawn
	}
	return slices.Concat(
		ofNodes(f, warn.NoGate, LacksGate, noGateMessage),
		ofNodes(f, protocol.Cordoned, cordoned, func(r *protocol.Record) string {
			return fmt.Sprintf("it was taken out of service %s; to end that: %s", r.Node.Cordon, r.Node.Cordon.Remedy(r.ID))
		}),
		closedGates(v, f),
		ofNodes(f, protocol.APIServerNotReady, notReady, func(r *protocol.Record) string {
			_, cause := r.Presence.NotReady()
			return cause + "; it does not serve, and an upgrade stops another one: see the sidecar status of that node"
		}),
		ofNodes(f, warn.NodeWithdrawn, withdrawn, func(*protocol.Record) string {
			return "its sidecar cannot work with its kube-apiserver, and has withdrawn from the election: " +
				"the sidecar status of that node says why; repair that first"
		}),
	)
}

// closedGates returns the alive controllers whose gate is closed: an upgrade closes
// another one, and it may be the last that is open. A gate that the status keeps closed is
// part of an upgrade that is under way: it holds the next one only when that is complete.
func closedGates(v protocol.StatusView, f protocol.Fleet) []protocol.Warning {
	underWay := unsettled(v, f) != ""
	closed := func(r *protocol.Record) bool {
		p := r.Presence
		return r.AliveController() && !p.Ready && !LacksGate(r) && !r.Node.Cordon.On() && (!underWay || !byStatus(p.Reason))
	}
	return ofNodes(f, warn.GateClosed, closed, func(r *protocol.Record) string {
		return fmt.Sprintf("its gate is closed (%s), and the upgrade would close a second gate: see GATE in the sidecar status of that node", r.Presence.Reason)
	})
}

// byStatus reports whether a gate is closed for a reason that the leader's next status
// may remove.
func byStatus(reason protocol.Reason) bool {
	return slices.Contains([]protocol.Reason{
		protocol.StatusMissing, protocol.StatusCorrupt, protocol.ReleaseTooOld, protocol.ReconcilerTooOld,
	}, reason)
}

// Reasons lists every reason of an obstacle, for documentation.
func Reasons() []protocol.Reason {
	return []protocol.Reason{
		warn.EtcdUnreachable, warn.EtcdFull, warn.MemberDown, protocol.RecordCorrupt,
		protocol.RollingBack, warn.TurnUnderWay, warn.TurnOverdue, warn.UpgradeUnderWay,
		warn.NoLeader, warn.ObjectFailed, warn.NodeDead, warn.Outage, warn.NoGate,
		protocol.Cordoned, warn.GateClosed, protocol.APIServerNotReady, warn.NodeWithdrawn,
		protocol.Overridden, warn.OtherBundle, warn.BundlesDiffer, warn.APIServersDiffer,
		warn.ServicesDiffer,
		warn.BundleRejected, warn.ServicesRejected, protocol.ServiceFailing, protocol.ServiceNotReady,
		warn.RemovalsHeld, protocol.OtherStore, protocol.ReconcilerRuns, protocol.OtherWriter,
		publish.NotPublishing,
	}
}

// LacksGate reports whether a controller is alive and reports no gate.
func LacksGate(r *protocol.Record) bool { return r.AliveController() && r.Presence.Reason == "" }

// noGateMessage explains a missing gate, and says how to find the cause.
func noGateMessage(r *protocol.Record) string {
	where := ""
	if r.Presence.Host != "" {
		where = " on host " + r.Presence.Host
	}
	return fmt.Sprintf("it is alive%s but reports no gate; check the log of its sidecar, and whether two sidecars run with --node-id=%s", where, r.ID)
}

// reported returns the warnings of alive controllers that hold the next upgrade.
func reported(f protocol.Fleet) []protocol.Warning {
	var out []protocol.Warning
	for _, r := range f.Records {
		if !r.AliveController() {
			continue
		}
		for _, w := range r.Presence.Warnings {
			if holdsUpgrade(w.Reason) || w.Reason == warn.RemovalsHeld && r.Presence.Election == protocol.Leading {
				out = append(out, protocol.Warning{Reason: w.Reason, Subject: string(r.ID), Message: w.Message})
			}
		}
	}
	return out
}

// holdsUpgrade reports whether a warning of a node holds the next upgrade: the problem
// gets worse when a sidecar is started again, or another node stops.
func holdsUpgrade(reason protocol.Reason) bool {
	return slices.Contains([]protocol.Reason{
		warn.BundleRejected, warn.ServicesRejected, protocol.Overridden, protocol.ServiceFailing,
		protocol.ServiceNotReady, protocol.OtherStore, protocol.ReconcilerRuns, protocol.OtherWriter,
	}, reason)
}

// turnObstacles returns the turns that keep the next upgrade from starting: it would stop another
// node.
func turnObstacles(f protocol.Fleet) []protocol.Warning {
	var out []protocol.Warning
	for _, t := range f.Turns.Held {
		out = append(out, protocol.Warning{
			Reason: warn.TurnUnderWay, Subject: string(t.Node), Message: f.TurnText(t) + "; " + f.TurnRemedy(t),
		})
	}
	return out
}

// rollbackObstacle keeps the next upgrade from starting.
func rollbackObstacle(v protocol.StatusView, f protocol.Fleet) []protocol.Warning {
	if !f.Rollback.On() {
		return nil
	}
	state, _ := protocol.RollbackProgress(v, f)
	return []protocol.Warning{{Reason: protocol.RollingBack, Message: fmt.Sprintf("%s is under way: %s", f.Rollback, state)}}
}

// fleet returns a copy of the fleet whose records show which nodes vote, and whose member was removed since the
// sidecar last wrote the record: a node that joined again has written it.
func (f Facts) fleet() protocol.Fleet {
	if len(f.Voters) == 0 {
		return f.Fleet
	}
	marked := make([]*protocol.Record, 0, len(f.Fleet.Records))
	for _, r := range f.Fleet.Records {
		one := *r
		one.Votes = slices.ContainsFunc(f.Voters, func(v protocol.Voter) bool { return v.Name == string(r.ID) })
		for _, m := range f.Removed {
			if m.Node == r.ID && !one.Votes && m.Revision > r.Revision && m.Revision > one.Removed.Revision {
				one.Removed = m
			}
		}
		marked = append(marked, &one)
	}
	out := f.Fleet
	out.Records = marked
	return out
}
