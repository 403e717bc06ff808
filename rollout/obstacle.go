package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// ObstacleKind is a stable CamelCase word for why a rollout would not go
// cleanly.
type ObstacleKind string

// The kinds of an obstacle.
const (
	// ObstacleDeadlock: the first upgraded nodes wait for the objects, and the
	// objects wait for the old nodes. Make a release in between.
	ObstacleDeadlock ObstacleKind = "Deadlock"
	// ObstacleNotReady: a node is not ready after its upgrade, so a rollout that
	// waits for each node stops there.
	ObstacleNotReady ObstacleKind = "NotReadyAfterUpgrade"
	// ObstacleOutage: for a while no node is ready.
	ObstacleOutage ObstacleKind = "Outage"
	// ObstacleUpgradeUnderWay: the previous upgrade is not complete.
	ObstacleUpgradeUnderWay ObstacleKind = "UpgradeUnderWay"
	// ObstacleUpgradeHeld: upgradeReady is false for another reason: no node leads,
	// bundles differ, one is rejected, or removals are held.
	ObstacleUpgradeHeld ObstacleKind = "UpgradeHeld"
	// ObstacleNodeDead: a node is not alive, and its record has another release.
	ObstacleNodeDead ObstacleKind = "NodeDead"
	// ObstacleRecordCorrupt: a node record cannot be read.
	ObstacleRecordCorrupt ObstacleKind = "RecordCorrupt"
	// ObstacleNodeWithdrawn: a sidecar cannot use its kube-apiserver.
	ObstacleNodeWithdrawn ObstacleKind = "NodeWithdrawn"
	// ObstacleNodeNotReady: a node is not ready before the rollout begins.
	ObstacleNodeNotReady ObstacleKind = "NodeNotReady"
	// ObstacleStatusCorrupt: the status cannot be read.
	ObstacleStatusCorrupt ObstacleKind = "StatusCorrupt"
	// ObstacleUnfinished: all live nodes have the bundle, and the objects are
	// still not at it.
	ObstacleUnfinished ObstacleKind = "Unfinished"
)

// Obstacle is a reason why a rollout would not go cleanly.
type Obstacle struct {
	Kind    ObstacleKind
	Node    protocol.NodeID // the node it is about; empty: no single node
	Message string          // what is wrong, and what to do
}

// obstacles returns what would go wrong. What can be repaired before the rollout
// comes first.
func obstacles(in Input, f Forecast, end *simulation) []Obstacle {
	var out []Obstacle
	for _, r := range in.Fleet.Records {
		if o, is := recordObstacle(in, f, r); is {
			out = append(out, o)
		}
	}
	if o, is := underWay(in, f); is {
		out = append(out, o)
	}
	out = append(out, held(in, f)...)
	out = append(out, moveObstacles(in, f)...)
	return append(out, endObstacles(in, f, end, len(out) > 0)...)
}

// endObstacles says why the rollout is not complete at its end. Where others
// explain it already, only the objects count.
func endObstacles(in Input, f Forecast, end *simulation, others bool) []Obstacle {
	var last Moment
	if len(f.Moves) > 0 {
		last = f.Moves[len(f.Moves)-1].After
	} else {
		last = end.settle() // nothing moves, but the leader may have work left
	}
	reached := last.Status.Kind == protocol.StatusPresent && last.Status.Status.State == protocol.Done &&
		last.Status.Status.Digest == in.Bundle.Digest && last.Status.Status.Version.Release == in.Bundle.Version.Release
	switch {
	case !reached:
		return []Obstacle{unfinished(last)}
	case !others && !protocol.Settled(end.status, end.fleet):
		return []Obstacle{{Kind: ObstacleUnfinished, Message: "all live nodes have the bundle, and a registered node still has another release"}}
	}
	return nil
}

func statusCorrupt(v protocol.StatusView) Obstacle {
	return Obstacle{Kind: ObstacleStatusCorrupt, Message: "the reconciler status cannot be decoded (" + v.Problem + "); " +
		"the leader rebuilds it: check it with sidecar status, then plan again"}
}

// recordObstacle says what has to be repaired on a node before the rollout.
func recordObstacle(in Input, f Forecast, r *protocol.Record) (Obstacle, bool) {
	fresh := len(f.Moves) > 0 && !hasBegun(in)
	switch {
	case r.Problem != "":
		return Obstacle{Kind: ObstacleRecordCorrupt, Node: r.ID, Message: "its record is corrupt: " + r.Remedy()}, true
	case !r.Counts():
		return Obstacle{}, false
	case !r.Alive && r.Node.Version.Release != in.Bundle.Version.Release:
		return Obstacle{Kind: ObstacleNodeDead, Node: r.ID, Message: fmt.Sprintf(
			"it is not alive, and its record has release %s, so the upgrade cannot complete; start it again first, or if it has stopped for good: %s",
			r.Node.Version.Release, r.RemovalCommand())}, true
	case !r.Alive:
		return Obstacle{}, false
	case r.Presence.Election == protocol.Withdrawn:
		return Obstacle{Kind: ObstacleNodeWithdrawn, Node: r.ID, Message: "its sidecar has withdrawn from the election: " +
			"its kube-apiserver is unreachable or rejects the kubeconfig's user; repair that first"}, true
	case fresh && !r.Presence.Ready:
		return Obstacle{Kind: ObstacleNodeNotReady, Node: r.ID, Message: fmt.Sprintf(
			"it is not ready now (%s); repair that first", orNoReason(r.Presence.Reason))}, true
	}
	return Obstacle{}, false
}

func orNoReason(r protocol.Reason) protocol.Reason {
	if r == "" {
		return "no reason given"
	}
	return r
}

// hasBegun reports whether a node has the bundle's release already.
func hasBegun(in Input) bool {
	return slices.ContainsFunc(in.Fleet.Records, func(r *protocol.Record) bool {
		return isController(r) && r.Node.Version.Release == in.Bundle.Version.Release
	})
}

// goesForward reports whether the rollout is the beginning of an upgrade. Going
// back, and going on, are always allowed.
func goesForward(in Input, f Forecast) bool {
	newest := protocol.Summarize(in.Fleet, protocol.Release{}).Max
	return len(f.Now.Gates) > 0 && !hasBegun(in) && newest.Less(in.Bundle.Version.Release)
}

// held returns what holds the next upgrade although the previous one is complete.
func held(in Input, f Forecast) []Obstacle {
	if !goesForward(in, f) {
		return nil
	}
	var out []Obstacle
	for _, o := range protocol.UpgradeObstacles(in.Status, in.Fleet) {
		switch o.Reason {
		case protocol.NoLeader, protocol.BundlesDiffer, protocol.APIServersDiffer, protocol.ServicesDiffer, protocol.BundleRejected, protocol.RemovalsHeld:
			out = append(out, Obstacle{Kind: ObstacleUpgradeHeld, Node: o.Node, Message: o.Message + " (upgradeReady is false)"})
		default: // has an obstacle of its own
		}
	}
	return out
}

// underWay says so where the previous upgrade is not complete.
func underWay(in Input, f Forecast) (Obstacle, bool) {
	valid := in.Fleet // corrupt records are obstacles of their own
	valid.Records = slices.DeleteFunc(slices.Clone(valid.Records), func(r *protocol.Record) bool { return r.Problem != "" })
	if !goesForward(in, f) || protocol.Settled(in.Status, valid) {
		return Obstacle{}, false
	}
	why := "there is no status yet, because the first reconciliation is not finished"
	if s := in.Status.Status; in.Status.Kind == protocol.StatusPresent {
		why = fmt.Sprintf("the status is %s at %s, and the nodes run %s", s.State, s.Version.Release, releases(in.Fleet))
	}
	return Obstacle{Kind: ObstacleUpgradeUnderWay, Message: "the previous upgrade is not complete (upgradeReady is false): " +
		why + "; complete it, or roll it back, first"}, true
}

// releases lists the releases of a fleet, lowest first.
func releases(f protocol.Fleet) string {
	var all []protocol.Release
	for _, r := range f.Records {
		if isController(r) {
			all = append(all, r.Node.Version.Release)
		}
	}
	slices.SortFunc(all, protocol.Release.Compare)
	var out []string
	for _, r := range slices.Compact(all) {
		out = append(out, r.String())
	}
	return strings.Join(out, ", ")
}

// moveObstacles returns what goes wrong during the moves: the first node that is
// not ready after its upgrade, and the first time that no node is ready.
func moveObstacles(in Input, f Forecast) []Obstacle {
	var out []Obstacle
	several := len(f.Now.Gates) > 1
	waits, outage := false, false
	for i, m := range f.Moves {
		if g := m.After.gate(m.Node); m.Kind != MoveReload && !g.Verdict.Ready && !waits {
			waits = true
			out = append(out, notReady(in, f, i))
		}
		if m.Kind == MoveUpgrade && several && !outage && len(f.Now.Ready()) > 0 && len(m.While.Ready()) == 0 {
			outage = true
			out = append(out, Obstacle{Kind: ObstacleOutage, Node: m.Node, Message: fmt.Sprintf(
				"once it stops, no node is ready%s", until(f, i, func(after Moment) bool { return len(after.Ready()) > 0 }))})
		}
	}
	return out
}

// notReady says why the node of a move does not become ready, and until when.
func notReady(in Input, f Forecast, i int) Obstacle {
	m := f.Moves[i]
	when := until(f, i, func(after Moment) bool { return after.gate(m.Node).Verdict.Ready })
	verdict := m.After.gate(m.Node).Verdict
	if blockers := m.After.Step.Blockers; m.After.Step.Kind == protocol.StepAwait && verdict.Reason == protocol.ReconcilerTooOld {
		if why := deadlockOf(in); why != "" {
			return Obstacle{Kind: ObstacleDeadlock, Node: m.Node, Message: fmt.Sprintf(
				"it is not ready%s, because the leader waits for %s before it applies the objects; the bundle %s", when, names(blockers), why)}
		}
	}
	return Obstacle{Kind: ObstacleNotReady, Node: m.Node, Message: fmt.Sprintf(
		"after its upgrade it is not ready%s (%s): %s", when, verdict.Reason, verdict.Message)}
}

// deadlockOf asks Deadlock about the lowest release of the fleet.
func deadlockOf(in Input) string {
	return Deadlock(protocol.Summarize(in.Fleet, in.Bundle.Version.Release).Min, in.Bundle.Version.Release, in.Bundle.Constraints)
}

// until names the move after which a condition holds.
func until(f Forecast, first int, holds func(Moment) bool) string {
	for i, m := range f.Moves[first:] {
		if !holds(m.After) {
			continue
		}
		if i == 0 {
			return " until it is started again"
		}
		return fmt.Sprintf(" until %s is upgraded (step %d)", m.Node, first+i+1)
	}
	return ", even when all nodes are upgraded"
}

func names(blockers []protocol.Blocker) string {
	var out []string
	for _, b := range blockers {
		out = append(out, string(b.Node))
	}
	return strings.Join(out, ", ")
}

// unfinished says what holds the leader back when all live nodes have the
// bundle.
func unfinished(last Moment) Obstacle {
	var message strings.Builder
	message.WriteString("all live nodes have the bundle, and the objects are still not at it: ")
	switch {
	case last.Leader == "":
		message.WriteString("no node may lead")
	case len(last.Step.Blockers) > 0:
		fmt.Fprintf(&message, "%s waits for %s", last.Leader, names(last.Step.Blockers))
		for _, b := range last.Step.Blockers {
			fmt.Fprintf(&message, "; %s: %s", b.Node, b.Message)
		}
	default:
		message.WriteString(last.Step.Message)
	}
	return Obstacle{Kind: ObstacleUnfinished, Message: message.String()}
}
