package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// ObstacleKind is a stable CamelCase word for why a rollout would not go
// cleanly.
type ObstacleKind string

// The kinds of an obstacle of the rollout itself. For an obstacle that holds the next upgrade
// already now, the kind is the reason of upgrade.Judge.
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
	// ObstacleNodeDead: a node is not alive, and its record is of another release.
	ObstacleNodeDead ObstacleKind = "NodeDead"
	// ObstacleRecordCorrupt: a node record cannot be read.
	ObstacleRecordCorrupt ObstacleKind = "RecordCorrupt"
	// ObstacleNodeWithdrawn: a sidecar cannot use its kube-apiserver.
	ObstacleNodeWithdrawn ObstacleKind = "NodeWithdrawn"
	// ObstacleRollingBack: a rollback to another release is under way.
	ObstacleRollingBack = ObstacleKind(protocol.RollingBack)
	// ObstacleStatusCorrupt: the status cannot be read.
	ObstacleStatusCorrupt ObstacleKind = "StatusCorrupt"
	// ObstacleOtherBundle: the objects are of a bundle with another name, so leaders hold.
	ObstacleOtherBundle = ObstacleKind(warn.OtherBundle)
	// ObstacleUnfinished: all live nodes run the bundle, and the objects are
	// still not at it.
	ObstacleUnfinished ObstacleKind = "Unfinished"
)

// Obstacle is a reason why a rollout would not go cleanly.
type Obstacle struct {
	Kind    ObstacleKind
	Node    protocol.NodeID // the node it is about; empty: no single node
	Message string          // the problem and its remedy
}

// obstacles returns the obstacles of a rollout. Obstacles that people can repair
// before the rollout come first, and a wrong bundle before all others: it may be
// their cause.
func obstacles(in Input, f Forecast, end *simulation) []Obstacle {
	return append(otherBundle(in), rolloutObstacles(in, f, end)...)
}

func rolloutObstacles(in Input, f Forecast, end *simulation) []Obstacle {
	var out []Obstacle
	if goesForward(in, f) {
		out = held(in)
		for i, o := range out {
			if o.Kind == ObstacleUpgradeUnderWay {
				out[i].Message = "the previous upgrade is not complete (upgradeReady is false): " + o.Message
			}
		}
	} else {
		out = toRepair(in)
	}
	outageNow := slices.ContainsFunc(out, func(o Obstacle) bool { return o.Kind == ObstacleOutage })
	for _, o := range moveObstacles(in, f) {
		if o.Kind != ObstacleOutage || !outageNow {
			out = append(out, o)
		}
	}
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
	case last.Step.Rule == protocol.HoldForBundle:
		return nil // otherBundle reports it
	case !reached:
		return []Obstacle{unfinished(last)}
	case !others && !upgrade.Settled(end.status, end.fleet):
		return []Obstacle{{Kind: ObstacleUnfinished, Message: "all live nodes have the bundle, and a registered node still has another release"}}
	}
	return nil
}

// otherBundle says that leaders hold, because the objects are of a bundle with another name
// than the one to be rolled out, and people did not ask for the replacement.
func otherBundle(in Input) []Obstacle {
	objects, own := in.Mark.Bundle(), in.Bundle.Bundle
	if in.Status.Kind == protocol.StatusPresent && in.Status.Status.Bundle != "" {
		objects = in.Status.Status.Bundle
	}
	asked := protocol.Replacement{From: objects, To: own}.Repeats(in.Replacement)
	if objects == "" || own == "" || objects == own || asked {
		return nil
	}
	return []Obstacle{{Kind: ObstacleOtherBundle, Message: fmt.Sprintf(
		"held by %s: the objects are of the bundle %s, so a leader that runs %s applies and removes nothing; "+
			"check --bundle, or if %s is meant to replace %s, type when a node runs it: sidecar bundle replace --from %s --to %s",
		protocol.HoldForBundle, objects, own, own, objects, objects, own)}}
}

func statusCorrupt(v protocol.StatusView) Obstacle {
	return Obstacle{Kind: ObstacleStatusCorrupt, Message: "the reconciler status cannot be decoded (" + v.Problem + "); " +
		"the leader rebuilds it: check it with sidecar status, then plan again"}
}

// toRepair returns the obstacles on nodes that people must repair before a rollout that
// goes on or goes back. Such a rollout is allowed while something holds the next upgrade.
func toRepair(in Input) []Obstacle {
	var out []Obstacle
	for _, o := range held(in) {
		r, _ := in.Fleet.Record(o.Node)
		switch o.Kind {
		case ObstacleNodeDead:
			if _, restarts := in.turnOf(o.Node); restarts {
				continue
			}
			if r.Node.Version.Release != in.Bundle.Version.Release {
				o.Message = fmt.Sprintf("its record has release %s, so the rollout cannot complete: %s", r.Node.Version.Release, o.Message)
				out = append(out, o)
			}
		case ObstacleRollingBack:
			if to := in.Fleet.Rollback.To; to != in.Bundle.Version.Release {
				o.Message = fmt.Sprintf("only nodes of release %s lead, so no leader applies this bundle: %s", to, o.Message)
				out = append(out, o)
			}
		case ObstacleRecordCorrupt, ObstacleNodeWithdrawn:
			out = append(out, o)
		default:
		}
	}
	return out
}

// hasBegun reports whether a node runs the bundle's release already.
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

// held returns the obstacles of the next upgrade, the upgradeObstacles of /status.
func held(in Input) []Obstacle {
	var out []Obstacle
	for _, o := range in.upgrade().Obstacles {
		out = append(out, Obstacle{Kind: ObstacleKind(o.Reason), Node: protocol.NodeID(o.Subject), Message: o.Message})
	}
	return out
}

// moveObstacles returns the obstacles during the moves: the first node that is
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
				"it is not ready%s, because the leader waits for %s before it applies the objects; the bundle %s", when, protocol.BlockerNames(blockers), why)}
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

// unfinished says why the leader does not finish although all live nodes run
// the bundle.
func unfinished(last Moment) Obstacle {
	var message strings.Builder
	message.WriteString("all live nodes have the bundle, and the objects are still not at it: ")
	switch {
	case last.Leader == "":
		message.WriteString("no node may lead")
	case len(last.Step.Blockers) > 0:
		fmt.Fprintf(&message, "%s waits for %s", last.Leader, protocol.BlockerNames(last.Step.Blockers))
		for _, b := range last.Step.Blockers {
			fmt.Fprintf(&message, "; %s: %s", b.Node, b.Message)
		}
	default:
		message.WriteString(last.Step.Message)
	}
	return Obstacle{Kind: ObstacleUnfinished, Message: message.String()}
}
