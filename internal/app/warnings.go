package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/publish"
	"github.com/lockstep-dev/lockstep/report"
)

// warned contains the problems that this sidecar knows.
type warned struct {
	// shown are the problems in the warnings of /status: those without their own list there.
	shown []protocol.Warning
	// reported are this node's problems, for its presence: other nodes show them.
	reported []protocol.Warning
	// troubles are the problems of voters of the etcd that the sidecars run.
	troubles map[string]string
	// answers are the answers of the services' probes that the warnings quote.
	answers map[string]probeAnswer
}

func (w warned) equal(o warned) bool {
	return slices.Equal(w.shown, o.shown) && slices.Equal(w.reported, o.reported) && maps.Equal(w.troubles, o.troubles)
}

// warningPause is the shortest time between two changes of the warnings: each change writes the
// presence, which all sidecars read.
const warningPause = 500 * time.Millisecond

// keepWarnings publishes the problems after each change, until ctx ends.
func (a *App) keepWarnings(ctx context.Context) error {
	for {
		changes := []<-chan struct{}{
			changed(a.election.State().Load()),
			changed(a.reconcile.Report().Load()),
			changed(a.bundleProblem.Load()),
			changed(a.version.Load()),
			changed(a.local.Load()),
			changed(a.otherAPIServer.Load()),
			changed(a.override.Load()),
			changed(a.overrideProblem.Load()),
			changed(a.roles.Problem().Load()),
			changed(a.roles.State().Load()),
			changed(a.supervisor.Failures().Load()),
			changed(a.memberHealth.Load()),
			changed(a.schedule.State().Load()),
			changed(a.clocks.Load()),
			changed(a.kubeconfig.warnings.Load()),
			changed(a.certificateWarnings.Load()),
			changed(a.follower.Fleet().Load()),
			changed(a.store.Observed().Load()),
			changed(a.presence.Rival().Load()),
			changed(a.apiserverShown.Load()),
			changed(a.gate.Verdict().Load()),
			changed(a.cluster.Status().Load()),
			changed(a.cluster.Member().Load()),
			changed(a.cluster.Members().Load()),
			a.serviceChanged(),
		}
		now := time.Now()
		if seen := a.seen.Get().update(a.follower.Fleet().Get(), now); !seen.equal(a.seen.Get()) {
			a.seen.Set(seen)
		}
		was := a.warned.Get()
		if is := a.warningsNow(was, now); !is.equal(was) {
			a.warned.Set(is)
		}
		at := nextServiceFault(a.roles.State().Get(), a.warned.Get().answers, now)
		if r := a.follower.Fleet().Get().Rollback; r.On() {
			at = earliest(at, protocol.RollbackNoticeAt(r), now)
		}
		at = earliest(at, protocol.NextTurnLimit(a.follower.Fleet().Get().Turns, now), now)
		at = earliest(at, a.schedule.State().Get().WarnsAt(), now)
		if at = earliest(at, a.memberFacts().nextRemoval(now), now); !at.IsZero() {
			waitFor(ctx, at.Sub(now), changes...)
		} else {
			event.Wait(ctx, changes...)
		}
		if !backoff.Sleep(ctx, warningPause) {
			return ctx.Err()
		}
	}
}

// warningsNow collects the problems. It keeps the times of problems that was contains too.
func (a *App) warningsNow(was warned, now time.Time) warned {
	runs, answers := serviceRuns(a.roles.State().Get(), was.answers, now)
	own, leaders, members := a.ownWarnings(runs), a.leaderWarnings(), a.memberFacts()
	troubles := members.troubles(now)
	view := a.store.Observed().Get().View
	out := warned{
		shown: slices.Concat(own, membership.DatabaseWarnings(databases(members.members)),
			members.warnings(troubles), members.leaving(), a.memberHealth.Get().shown,
			fleetWarnings(view, protocol.WithVoters(members.fleet, nodeVoters(members.members, nil)), a.local.Get().ID),
			protocol.TurnWarnings(members.fleet, now),
			protocol.RollbackEnding(members.fleet, now)),
		reported: protocol.ReportedWarnings(slices.Concat(own, leaders)),
		troubles: troubles, answers: answers,
	}
	keepTimes(out.shown, was.shown, now)
	keepTimes(out.reported, was.reported, now)
	return out
}

// keepTimes sets each missing time: from the same problem in before, or else to now.
func keepTimes(warnings, before []protocol.Warning, now time.Time) {
	for i, w := range warnings {
		if !w.Since.IsZero() {
			continue
		}
		warnings[i].Since = now
		same := func(o protocol.Warning) bool {
			return o.Reason == w.Reason && o.Subject == w.Subject && o.Message == w.Message
		}
		if j := slices.IndexFunc(before, same); j >= 0 {
			warnings[i].Since = before[j].Since
		}
	}
}

// ownWarnings returns problems of this sidecar, whether it leads or not.
func (a *App) ownWarnings(runs []nodeservices.Run) []protocol.Warning {
	var out []protocol.Warning
	state := a.election.State().Get()
	if foreign := a.foreignBundle(state); foreign != "" {
		out = append(out, protocol.Warning{Reason: protocol.OtherBundle, Message: foreign})
	}
	if problem := a.apiserverProblem(); problem != "" && a.version.Get() != "" && a.otherAPIServer.Get() == "" {
		out = append(out, protocol.Warning{Reason: protocol.OtherAPIServer, Message: problem + "; until then this node serves with it"})
	}
	if o := a.override.Get(); o.On() {
		out = append(out, protocol.Warning{Reason: protocol.Overridden, Message: "AN OPERATOR HAS OVERRIDDEN THE GATE " + o.String() +
			": this node serves whatever the gate says; to end that, type there: sidecar override end" + OverrideFlag(a.cfg.OverrideFile)})
	}
	if problem := a.overrideProblem.Get(); problem != "" {
		out = append(out, protocol.Warning{Reason: protocol.OverrideRejected, Message: problem})
	}
	if state.Election == protocol.Withdrawn && state.Eligibility.Message != "" {
		out = append(out, protocol.Warning{Reason: state.Eligibility.Reason, Message: state.Eligibility.Message})
	}
	if rival := a.presence.Rival().Get(); rival != (fleet.Rival{}) {
		out = append(out, protocol.Warning{Reason: protocol.DuplicateNodeID, Message: rival.String(), Since: rival.At})
	}
	if problem := a.memberProblem(); problem != "" {
		out = append(out, protocol.Warning{Reason: protocol.MemberDown, Message: protocol.MemberCannotBeUsed + problem})
	}
	if err := a.bundleFault.Get(); err != nil {
		out = append(out, bundleWarning(err))
	}
	if problem := a.roles.Problem().Get(); problem != "" {
		out = append(out, protocol.Warning{Reason: protocol.ServicesRejected, Message: "its services directory was rejected, and the last valid services stay in use; " +
			"the directory is read again when it changes, and a restart would fail until it is valid: " + strings.ReplaceAll(problem, "\n", "; ")})
	}
	out = append(out, nodeservices.Failing(runs)...)
	out = append(out, a.memberHealth.Get().reported...)
	out = append(out, a.snapshotWarnings()...)
	out = append(out, a.clocks.Get().warnings...)
	for _, f := range a.supervisor.Failures().Get() {
		out = append(out, protocol.Warning{Reason: protocol.WorkerFailed, Message: failedMessage(f), Since: f.Since})
	}
	if held := heldMessage(state.Election, a.reconcile.Report().Get()); held != "" {
		out = append(out, protocol.Warning{Reason: protocol.RemovalsHeld, Message: held})
	}
	out = append(out, a.serviceWarnings()...)
	out = append(out, a.apiserverWarnings()...)
	if garbage := cmp.Or(state.Garbage, a.store.Observed().Get().View.Warning); garbage != "" {
		out = append(out, protocol.Warning{Message: garbage})
	}
	for _, text := range slices.Concat(a.kubeconfig.warnings.Get(), a.certificateWarnings.Get()) {
		out = append(out, protocol.Warning{Message: text})
	}
	return out
}

// foreignBundle reports that this node runs another bundle than the one that owns the objects;
// empty: it does not. A leader reports the message of its rule instead, which contains more.
func (a *App) foreignBundle(state election.State) string {
	if state.Election == protocol.Leading && state.Step.Rule == protocol.HoldForBundle && state.Step.Kind == protocol.StepHold {
		return string(state.Step.Rule) + ": " + state.Step.Message
	}
	if text := protocol.ForeignBundle(a.store.Observed().Get().View, a.local.Get().Bundle); text != "" {
		return "it " + text
	}
	return ""
}

func failedMessage(f supervise.Failure) string {
	times := fmt.Sprintf("%d times", f.Times)
	if f.Times == 1 {
		times = "once"
	}
	return fmt.Sprintf("the part %q of this sidecar failed %s, and was started again: %s; the log has more: please report it", f.Worker, times, f.Problem)
}

// bundleWarning warns about a bundle that is not in use. A valid bundle that waits for the next
// start is part of an upgrade, so its reason does not hold the upgrade.
func bundleWarning(err error) protocol.Warning {
	var waits *restartError
	var other *otherBundleError
	switch {
	case errors.As(err, &waits):
		return protocol.Warning{Reason: protocol.BundleWaits, Message: "its bundle directory has another bundle than this sidecar runs: " + err.Error()}
	case errors.As(err, &other):
		return protocol.Warning{Reason: protocol.BundleRejected, Message: "its bundle directory has a bundle with another name, and the last valid bundle stays in use: " +
			err.Error()}
	}
	return protocol.Warning{Reason: protocol.BundleRejected, Message: fmt.Sprintf("its bundle directory was rejected, and the last valid bundle stays in use: %s; "+
		"the directory is read again when it changes, and a restart would fail until it is valid", err)}
}

// heldMessage describes removals that wait until a person allows them; empty: none. Only the leader
// warns: after another node was elected, the report of the old leader's last pass can be outdated.
func heldMessage(e protocol.ElectionState, r report.Reconcile) string {
	held := r.Held()
	if e != protocol.Leading || held == 0 {
		return ""
	}
	what := fmt.Sprintf("%d objects that the bundle dropped are", held)
	if held == 1 {
		what = "1 object that the bundle dropped is"
	}
	return what + " not removed: " + r.PruneHeld
}

// How many blockers, failures and fights a leader reports to the other nodes. Its own /status lists
// all.
const (
	reportedBlockers = 3
	reportedFailures = 2
	reportedFights   = 2
)

// leaderWarnings returns the blockers, failures and fights of this leader, for the other nodes: its
// own /status lists them elsewhere.
func (a *App) leaderWarnings() []protocol.Warning {
	state := a.election.State().Get()
	if state.Election != protocol.Leading {
		return nil
	}
	var out []protocol.Warning
	if blockers := state.Step.Blockers; len(blockers) > 0 {
		out = append(out, protocol.Warning{Reason: blockers[0].Reason, Message: string(state.Step.Rule) + ": " + state.Step.Message})
	}
	for _, b := range firstOf(state.Step.Blockers, reportedBlockers) {
		out = append(out, protocol.Warning{Reason: b.Reason, Subject: string(b.Node), Message: b.Message})
	}
	if state.Step.Rule == protocol.HoldForStore {
		out = append(out, protocol.Warning{Message: string(state.Step.Rule) + ": " + state.Step.Message})
	}
	r := a.reconcile.Report().Get()
	out = append(out, a.failureWarnings(r)...)
	for _, f := range firstOf(r.Drift.Fights, reportedFights) {
		out = append(out, protocol.Warning{Reason: protocol.Fight, Subject: f.Object, Message: f.Advice(), Since: f.Since.Time})
	}
	return out
}

// failureWarnings names the first failed objects, and where to find the rest. Required objects,
// which keep the status from becoming DONE, come first.
func (a *App) failureWarnings(r report.Reconcile) []protocol.Warning {
	var out []protocol.Warning
	failures := slices.Clone(r.Failures)
	sorting.By(failures, requiredFirst)
	for _, f := range firstOf(failures, reportedFailures) {
		message := f.Message
		if f.Remedy != "" {
			message += "; " + f.Remedy
		}
		out = append(out, protocol.Warning{Reason: protocol.ObjectFailed, Subject: f.Object, Message: message, Since: f.Since.Time})
	}
	if more := r.TotalFailures - len(out); more > 0 {
		what := fmt.Sprintf("and %d more objects fail", more)
		if more == 1 {
			what = "and 1 more object fails"
		}
		out = append(out, protocol.Warning{Reason: protocol.ObjectFailed, Message: fmt.Sprintf(
			"%s: see FAILURES in the sidecar status of %s (%s)", what, a.local.Get().ID, a.address)})
	}
	return out
}

// requiredFirst sorts required objects before the others.
func requiredFirst(x, y report.Failure) int {
	switch {
	case x.Required == y.Required:
		return 0
	case x.Required:
		return -1
	}
	return 1
}

func firstOf[T any](all []T, most int) []T { return all[:min(len(all), most)] }

// fleetWarnings returns problems of the fleet, which each node sees by itself.
func fleetWarnings(v protocol.StatusView, f protocol.Fleet, own protocol.NodeID) []protocol.Warning {
	var out []protocol.Warning
	for _, text := range digestWarnings(f, v.Status.Digest) {
		out = append(out, protocol.Warning{Reason: protocol.BundlesDiffer, Message: text})
	}
	out = append(out, publish.Outside(f)...)
	return append(out, protocol.FleetWarnings(v, f, own)...)
}
