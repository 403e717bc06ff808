package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// Reasons of an obstacle of the rollout itself. For an obstacle that holds the next upgrade
// already now, the reason is the one of upgrade.Judge.
const (
	// deadlocked: the first upgraded nodes wait for the objects, and the
	// objects wait for the old nodes. Make a release in between.
	deadlocked protocol.Reason = "Deadlock"
	// notReadyAfterUpgrade: a node is not ready after its upgrade, so a rollout that
	// waits for each node stops there.
	notReadyAfterUpgrade protocol.Reason = "NotReadyAfterUpgrade"
	// endsUnfinished: all live nodes run the bundle, and the objects are
	// still not at it.
	endsUnfinished protocol.Reason = "Unfinished"
)

// obstacles returns the obstacles of a rollout. Obstacles that people can repair
// before the rollout come first, and a wrong bundle before all others: it may be
// their cause.
func obstacles(in Input, f Forecast, end *simulation) []protocol.Warning {
	return append(otherBundle(in), rolloutObstacles(in, f, end)...)
}

func rolloutObstacles(in Input, f Forecast, end *simulation) []protocol.Warning {
	var out []protocol.Warning
	if goesForward(in, f) {
		out = in.upgrade().Obstacles
		for i, o := range out {
			if o.Reason == warn.UpgradeUnderWay {
				out[i].Message = "the previous upgrade is not complete (upgradeReady is false): " + o.Message
			}
		}
	} else {
		out = toRepair(in)
	}
	outageNow := slices.ContainsFunc(out, func(o protocol.Warning) bool { return o.Reason == warn.Outage })
	for _, o := range moveObstacles(in, f) {
		if o.Reason != warn.Outage || !outageNow {
			out = append(out, o)
		}
	}
	return append(out, endObstacles(in, f, end, len(out) > 0)...)
}

// endObstacles says why the rollout is not complete at its end. Where others
// explain it already, only the objects count.
func endObstacles(in Input, f Forecast, end *simulation, others bool) []protocol.Warning {
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
		return []protocol.Warning{unfinished(last)}
	case !others && !upgrade.Settled(end.status, end.fleet):
		return []protocol.Warning{{Reason: endsUnfinished, Message: "all live nodes have the bundle, and a registered node still has another release"}}
	}
	return nil
}

// otherBundle says that leaders hold, because the objects are of a bundle with another name
// than the one to be rolled out, and people did not ask for the replacement.
func otherBundle(in Input) []protocol.Warning {
	objects, own := in.Mark.Bundle(), in.Bundle.Bundle
	if in.Status.Kind == protocol.StatusPresent && in.Status.Status.Bundle != "" {
		objects = in.Status.Status.Bundle
	}
	if objects == "" || own == "" || objects == own || in.Replacement.Allows(objects, own) {
		return nil
	}
	return []protocol.Warning{{Reason: warn.OtherBundle, Message: fmt.Sprintf(
		"held by %s: the objects are of the bundle %s, so a leader that runs %s applies and removes nothing; "+
			"check --bundle, or if %s is meant to replace %s, type when a node runs it: sidecar bundle replace --from %s --to %s",
		protocol.HoldForBundle, objects, own, own, objects, objects, own)}}
}

func statusCorrupt(v protocol.StatusView) protocol.Warning {
	return protocol.Warning{Reason: protocol.StatusCorrupt, Message: "the reconciler status cannot be decoded (" + v.Problem + "); " +
		"the leader rebuilds it: check it with sidecar status, then plan again"}
}

// toRepair returns the obstacles on nodes that people must repair before a rollout that
// goes on or goes back. Such a rollout is allowed while something holds the next upgrade.
func toRepair(in Input) []protocol.Warning {
	var out []protocol.Warning
	for _, o := range in.upgrade().Obstacles {
		id := protocol.NodeID(o.Subject)
		r, _ := in.Fleet.Record(id)
		switch o.Reason {
		case warn.NodeDead:
			if _, restarts := in.turnOf(id); restarts {
				continue
			}
			if r.Node.Version.Release != in.Bundle.Version.Release {
				o.Message = fmt.Sprintf("its record has release %s, so the rollout cannot complete: %s", r.Node.Version.Release, o.Message)
				out = append(out, o)
			}
		case protocol.RollingBack:
			if to := in.Fleet.Rollback.To; to != in.Bundle.Version.Release {
				o.Message = fmt.Sprintf("only nodes of release %s lead, so no leader applies this bundle: %s", to, o.Message)
				out = append(out, o)
			}
		case protocol.RecordCorrupt, warn.NodeWithdrawn:
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

// moveObstacles returns the obstacles during the moves: the first node that is
// not ready after its upgrade, and the first time that no node is ready.
func moveObstacles(in Input, f Forecast) []protocol.Warning {
	var out []protocol.Warning
	several := len(f.Now.Gates) > 1
	waits, outage := false, false
	for i, m := range f.Moves {
		if g := m.After.gate(m.Node); m.Kind != MoveReload && !g.Verdict.Ready && !waits {
			waits = true
			out = append(out, notReady(in, f, i))
		}
		if m.Kind == MoveUpgrade && several && !outage && len(f.Now.Ready()) > 0 && len(m.While.Ready()) == 0 {
			outage = true
			out = append(out, protocol.Warning{Reason: warn.Outage, Subject: string(m.Node), Message: fmt.Sprintf(
				"once it stops, no node is ready%s", until(f, i, func(after Moment) bool { return len(after.Ready()) > 0 }))})
		}
	}
	return out
}

// notReady says why the node of a move does not become ready, and until when.
func notReady(in Input, f Forecast, i int) protocol.Warning {
	m := f.Moves[i]
	when := until(f, i, func(after Moment) bool { return after.gate(m.Node).Verdict.Ready })
	verdict := m.After.gate(m.Node).Verdict
	if blockers := m.After.Step.Blockers; m.After.Step.Kind == protocol.StepAwait && verdict.Reason == protocol.ReconcilerTooOld {
		if why := deadlockOf(in); why != "" {
			return protocol.Warning{Reason: deadlocked, Subject: string(m.Node), Message: fmt.Sprintf(
				"it is not ready%s, because the leader waits for %s before it applies the objects; the bundle %s", when, protocol.BlockerNames(blockers), why)}
		}
	}
	return protocol.Warning{Reason: notReadyAfterUpgrade, Subject: string(m.Node), Message: fmt.Sprintf(
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
func unfinished(last Moment) protocol.Warning {
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
	return protocol.Warning{Reason: endsUnfinished, Message: message.String()}
}
