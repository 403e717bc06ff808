package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// ObstacleKind is a stable CamelCase word for why a rollout would not go
// cleanly.
type ObstacleKind string

// The kinds of an obstacle.
const (
	// ObstacleDeadlock: the first upgraded nodes wait for objects that wait for
	// the old nodes (4.10). Make a release in between.
	ObstacleDeadlock ObstacleKind = "Deadlock"
	// ObstacleNotReady: a node comes back and is not ready, so that a rollout
	// that waits for each node stops there.
	ObstacleNotReady ObstacleKind = "NotReadyAfterUpgrade"
	// ObstacleOutage: for a while no node at all is ready.
	ObstacleOutage ObstacleKind = "Outage"
	// ObstacleUpgradeUnderWay: the upgrade before this one is not done.
	ObstacleUpgradeUnderWay ObstacleKind = "UpgradeUnderWay"
	// ObstacleDead: a node is not alive, and its record tells another release.
	ObstacleDead ObstacleKind = "NodeDead"
	// ObstacleCorrupt: a record cannot be read.
	ObstacleCorrupt ObstacleKind = "RecordCorrupt"
	// ObstacleWithdrawn: a node's apiserver is out of reach for its sidecar.
	ObstacleWithdrawn ObstacleKind = "NodeWithdrawn"
	// ObstacleIll: a node is not ready already, before anything was rolled out.
	ObstacleIll ObstacleKind = "NodeNotReady"
	// ObstacleStatus: the status cannot be read.
	ObstacleStatus ObstacleKind = "StatusCorrupt"
	// ObstacleUnfinished: when all nodes have the bundle, the objects are still
	// not as it wants them.
	ObstacleUnfinished ObstacleKind = "Unfinished"
)

// Obstacle is a reason why a rollout would not go cleanly.
type Obstacle struct {
	Kind    ObstacleKind
	Node    NodeID // that it is about; empty: none alone
	Message string // what, and what to do
}

// obstacles says what would go wrong, what can be done before first.
func obstacles(in Rollout, f Forecast, end *world) []Obstacle {
	var out []Obstacle
	for _, r := range in.Fleet.Records {
		if o, found := recordObstacle(in, f, r); found {
			out = append(out, o)
		}
	}
	if o, found := underWay(in, f); found {
		out = append(out, o)
	}
	out = append(out, moveObstacles(in, f)...)
	var last Moment
	if len(f.Moves) > 0 {
		last = f.Moves[len(f.Moves)-1].After
	} else {
		last = end.settle() // what is under way
	}
	reached := last.Status.Kind == StatusPresent && last.Status.Status.State == Done &&
		last.Status.Status.Digest == in.Bundle.Digest && last.Status.Status.Version.Release == in.Bundle.Version.Release
	if !reached {
		out = append(out, unfinished(last))
	} else if len(out) == 0 && !UpgradeReady(end.status, end.fleet) {
		out = append(out, Obstacle{Kind: ObstacleUnfinished, Message: "when all that are alive are upgraded, a registered node is still of another release"})
	}
	return out
}

func statusCorrupt(v StatusView) Obstacle {
	return Obstacle{Kind: ObstacleStatus, Message: "the reconciler status cannot be decoded (" + v.Problem + "); the leader rebuilds it: look at sidecar status, and plan again"}
}

// recordObstacle says what of a node has to be put right before.
func recordObstacle(in Rollout, f Forecast, r Record) (Obstacle, bool) {
	fresh := len(f.Moves) > 0 && !begun(in)
	switch {
	case r.Problem != "":
		return Obstacle{Kind: ObstacleCorrupt, Node: r.ID, Message: "its record is corrupt: " + r.Remedy()}, true
	case !r.Counts():
		return Obstacle{}, false
	case !r.Alive && r.Node.Version.Release != in.Bundle.Version.Release:
		return Obstacle{Kind: ObstacleDead, Node: r.ID, Message: fmt.Sprintf(
			"it is not alive, and its record tells release %s: the upgrade is not complete while it is there; bring it back before, or if it has stopped for good: %s",
			r.Node.Version.Release, r.removal())}, true
	case !r.Alive:
		return Obstacle{}, false
	case r.Presence.Election == Withdrawn:
		return Obstacle{Kind: ObstacleWithdrawn, Node: r.ID, Message: "it has withdrawn from the election, for its own apiserver is out of reach or refuses its user: repair that before"}, true
	case fresh && !r.Presence.Ready:
		return Obstacle{Kind: ObstacleIll, Node: r.ID, Message: fmt.Sprintf("it is not ready now (%s): repair that before", orUnsaid(r.Presence.Reason))}, true
	}
	return Obstacle{}, false
}

func orUnsaid(r Reason) Reason {
	if r == "" {
		return "it has not said why"
	}
	return r
}

// begun reports whether a node has the bundle's release already.
func begun(in Rollout) bool {
	return slices.ContainsFunc(in.Fleet.Records, func(r Record) bool {
		return r.Problem == "" && r.Node.Roles.Controller && r.Node.Version.Release == in.Bundle.Version.Release
	})
}

// underWay says so where this would be the next upgrade before the one before
// is done. Going back is always allowed.
func underWay(in Rollout, f Forecast) (Obstacle, bool) {
	newest := Summarize(in.Fleet, Release{}).Max
	well := in.Fleet // corrupt records are obstacles of their own
	well.Records = slices.DeleteFunc(slices.Clone(well.Records), func(r Record) bool { return r.Problem != "" })
	if len(f.Now.Gates) == 0 || begun(in) || !newest.Less(in.Bundle.Version.Release) || UpgradeReady(in.Status, well) {
		return Obstacle{}, false
	}
	why := "there is no status yet: the first reconciliation is not finished"
	if s := in.Status.Status; in.Status.Kind == StatusPresent {
		why = fmt.Sprintf("the status is %s at %s, and the nodes are of %s", s.State, s.Version.Release, releases(in.Fleet))
	}
	return Obstacle{Kind: ObstacleUpgradeUnderWay, Message: "the upgrade before this one is not done (upgradeReady is false): " + why + "; finish it, or go back, before the next"}, true
}

// releases lists the releases of a fleet, lowest first.
func releases(f Fleet) string {
	var all []Release
	for _, r := range f.Records {
		if r.Problem == "" && r.Node.Roles.Controller {
			all = append(all, r.Node.Version.Release)
		}
	}
	slices.SortFunc(all, Release.Compare)
	var out []string
	for _, r := range slices.Compact(all) {
		out = append(out, r.String())
	}
	return strings.Join(out, ", ")
}

// moveObstacles says at which move something goes wrong: the first node that is
// not ready when it is back, and the first time that nobody is ready.
func moveObstacles(in Rollout, f Forecast) []Obstacle {
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
				"while it is upgraded no node is ready%s", until(f, i, func(m Moment) bool { return len(m.Ready()) > 0 }))})
		}
	}
	return out
}

// notReady says why the node of a move does not become ready, and until when.
func notReady(in Rollout, f Forecast, i int) Obstacle {
	m := f.Moves[i]
	when := until(f, i, func(now Moment) bool { return now.gate(m.Node).Verdict.Ready })
	own := m.After.gate(m.Node).Verdict
	if blockers := m.After.Step.Blockers; m.After.Step.Kind == StepAwait && own.Reason == ReconcilerTooOld {
		if why := deadlock(in); why != "" {
			return Obstacle{Kind: ObstacleDeadlock, Node: m.Node, Message: fmt.Sprintf("it is not ready%s, and the objects wait for %s: %s", when, names(blockers), why)}
		}
	}
	return Obstacle{Kind: ObstacleNotReady, Node: m.Node, Message: fmt.Sprintf("it comes back and is not ready%s (%s): %s", when, own.Reason, own.Message)}
}

// deadlock names the lowest release from which the bundle cannot be rolled out.
func deadlock(in Rollout) string {
	return Deadlock(Summarize(in.Fleet, in.Bundle.Version.Release).Min, in.Bundle.Version.Release, in.Bundle.Constraints)
}

// until names the move after which something holds.
func until(f Forecast, after int, holds func(Moment) bool) string {
	for i, m := range f.Moves[after:] {
		if !holds(m.After) {
			continue
		}
		if i == 0 {
			return " until it is back"
		}
		return fmt.Sprintf(" until %s is upgraded (step %d)", m.Node, after+i+1)
	}
	return ", also when all are upgraded"
}

func names(blockers []Blocker) string {
	var out []string
	for _, b := range blockers {
		out = append(out, string(b.Node))
	}
	return strings.Join(out, ", ")
}

// unfinished says what holds the leader up when all nodes have the bundle.
func unfinished(last Moment) Obstacle {
	var message strings.Builder
	message.WriteString("when all that are alive are upgraded, the objects are still not those of the bundle: ")
	switch {
	case last.Leader == "":
		message.WriteString("nobody may lead")
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
