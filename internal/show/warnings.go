package show

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/status"
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

// KeepWarnings publishes the problems after each change, until ctx ends.
func (s *Show) KeepWarnings(ctx context.Context) error {
	for {
		changes := event.Changes(
			s.Election, s.Reconcile, s.BundleFault, s.APIServer.Version(), s.Local, s.APIServer.Other(), s.Override, s.OverrideProblem,
			s.ServicesProblem, s.ServiceState, s.Services, s.Servers, s.Failures, s.Cluster.Health(), s.Schedule, s.Clocks, s.Kubeconfig,
			s.CertificateWarnings,
			s.Fleet, s.Status, s.Rival, s.APIServer.Shown(), s.Verdict, s.Endpoints,
			s.Cluster.Status(), s.Cluster.Member(), s.Cluster.Members(), s.Cluster.Removed(),
		)
		now := time.Now()
		if was, seen := s.seen.Get(), s.seen.Get().update(s.Fleet.Get(), now); !sameRecords(seen.records, was.records) || !seen.equal(was) {
			s.seen.Set(seen)
		}
		was := s.warned.Get()
		if is := s.warningsNow(was, now); !is.equal(was) {
			s.warned.Set(is)
		}
		var limit time.Duration
		if at := earliest(now,
			nextServiceFault(s.ServiceState.Get(), s.warned.Get().answers, now), warn.NextOfWork(s.Fleet.Get(), now),
			s.Schedule.Get().WarnsAt(), s.Cluster.Status().Get().StuckSince.Add(interruptedAfter), s.memberFacts().nextRemoval(now),
		); !at.IsZero() {
			limit = at.Sub(now)
		}
		event.WaitFor(ctx, limit, changes...)
		if !backoff.Sleep(ctx, warningPause) {
			return ctx.Err()
		}
	}
}

// warningsNow collects the problems. It keeps the times of problems that was contains too.
func (s *Show) warningsNow(was warned, now time.Time) warned {
	runs, answers := serviceRuns(s.ServiceState.Get(), was.answers, now)
	own, leaders, members := s.ownWarnings(runs), s.leaderWarnings(was.reported), s.memberFacts()
	troubles := members.troubles(now)
	view := s.Status.Get().View
	out := warned{
		shown: slices.Concat(slices.DeleteFunc(slices.Clone(own), members.follows), databaseWarnings(members.members),
			members.warnings(troubles, now), members.leaving(), members.interrupted(now),
			members.fleetWarningsNow(view, now),
			warn.OfWork(members.fleet, now)),
		reported: upgrade.ReportedWarnings(slices.Concat(own, leaders)),
		troubles: troubles, answers: answers,
	}
	keepTimes(out.shown, was.shown, now)
	keepTimes(out.reported, was.reported, now)
	return out
}

// slowBefore returns the hint, for the problem of this node's member, that its disk was slow; empty: it was not.
func (s *Show) slowBefore() string {
	slow := func(w protocol.Warning) bool { return w.Reason == warn.DiskSlow }
	if slices.ContainsFunc(s.Cluster.Health().Get(), slow) {
		return slowBefore
	}
	return ""
}

// keepTimes sets each missing time: from the same problem in before, or else to now.
func keepTimes(warnings, before []protocol.Warning, now time.Time) {
	for i, w := range warnings {
		if !w.Since.IsZero() {
			continue
		}
		warnings[i].Since = now
		same := func(o protocol.Warning) bool {
			return o.Reason == w.Reason && o.Subject == w.Subject && lasting(o) == lasting(w)
		}
		if j := slices.IndexFunc(before, same); j >= 0 {
			warnings[i].Since = before[j].Since
		}
	}
}

// lasting returns what a warning says, without what may change while it lasts.
func lasting(w protocol.Warning) string { return strings.TrimSuffix(w.Message, slowBefore) }

// ownWarnings returns problems of this sidecar, whether it leads or not.
func (s *Show) ownWarnings(runs []nodeservices.Run) []protocol.Warning {
	var out []protocol.Warning
	add := func(reason protocol.Reason, message string) {
		if message != "" {
			out = append(out, protocol.Warning{Reason: reason, Message: message})
		}
	}
	state := s.Election.Get()
	add(warn.OtherBundle, s.foreignBundle(state))
	if problem := s.APIServer.Problem(); problem != "" && s.APIServer.Version().Get() != "" && s.APIServer.Other().Get() == "" {
		add(protocol.OtherAPIServer, problem+"; until then this node serves with it")
	}
	if o := s.Override.Get(); o.On() {
		out = append(out, protocol.WarnsOfOverride(o, status.OverrideFlag(s.cfg.OverrideFile)))
	}
	add(warn.OverrideRejected, s.OverrideProblem.Get())
	if state.Election == protocol.Withdrawn {
		add(state.Eligibility.Reason, state.Eligibility.Message)
	}
	if rival := s.Rival.Get(); rival != (fleet.Rival{}) {
		out = append(out, protocol.Warning{Reason: protocol.DuplicateNodeID, Message: rival.String(), Since: rival.At})
	}
	if problem := s.memberProblem(); problem != "" {
		add(warn.MemberDown, memberCannotBeUsed+problem+s.slowBefore())
	}
	out = append(out, stuck(time.Now(), s.Cluster.Status().Get(), s.Cluster.Membership().Get().Phase)...)
	if err := s.BundleFault.Get(); err != nil {
		out = append(out, bundle.FaultWarning(err))
	}
	out = append(out, s.serviceWarnings(runs)...)
	out = append(out, s.Cluster.Health().Get()...)
	out = append(out, s.snapshotWarnings()...)
	out = append(out, s.Clocks.Get().Warnings...)
	for _, f := range s.Failures.Get() {
		out = append(out, protocol.Warning{Reason: warn.WorkerFailed, Message: failedMessage(f), Since: f.Since})
	}
	add(warn.RemovalsHeld, heldMessage(state.Election, s.Reconcile.Get()))
	out = append(out, s.endpointsWarnings()...)
	out = append(out, s.apiserverWarnings()...)
	add("", cmp.Or(state.Garbage, s.Status.Get().View.Warning))
	for _, text := range slices.Concat(s.Kubeconfig.Get(), s.CertificateWarnings.Get()) {
		add("", text)
	}
	return out
}

// foreignBundle reports that this node runs another bundle than the one that owns the objects;
// empty: it does not. A leader reports the message of its rule instead, which contains more.
func (s *Show) foreignBundle(state election.State) string {
	if state.Election == protocol.Leading && state.Step.Rule == protocol.HoldForBundle && state.Step.Kind == protocol.StepHold {
		return string(state.Step.Rule) + ": " + state.Step.Message
	}
	if text := protocol.ForeignBundle(s.Status.Get().View, s.Local.Get().Bundle); text != "" {
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
// own /status lists them elsewhere. before are the warnings that it reported until now.
func (s *Show) leaderWarnings(before []protocol.Warning) []protocol.Warning {
	state := s.Election.Get()
	if state.Election != protocol.Leading {
		return nil
	}
	out := waits(state.Step, before)
	if state.Step.Rule == protocol.HoldForStore {
		out = append(out, protocol.Warning{Message: string(state.Step.Rule) + ": " + state.Step.Message})
	}
	r := s.Reconcile.Get()
	out = append(out, s.failureWarnings(r)...)
	for _, f := range firstOf(r.Drift.Fights, reportedFights) {
		out = append(out, protocol.Warning{Reason: warn.Fight, Subject: f.Object, Message: f.Advice(), Since: f.Since.Time})
	}
	return out
}

// waits returns the warnings about the nodes that a leader waits for. Their messages change while it waits: the number of
// nodes, and which of them are alive.
func waits(step protocol.Step, before []protocol.Warning) []protocol.Warning {
	if len(step.Blockers) == 0 {
		return nil
	}
	rule := string(step.Rule) + ": "
	out := []protocol.Warning{{Reason: step.Blockers[0].Reason, Message: rule + step.Message}}
	for _, b := range firstOf(step.Blockers, reportedBlockers) {
		out = append(out, protocol.Warning{Reason: b.Reason, Subject: string(b.Node), Message: b.Message})
	}
	for i, w := range out {
		same := func(o protocol.Warning) bool {
			return o.Subject == w.Subject && (w.Subject == "" && strings.HasPrefix(o.Message, rule) || w.Subject != "" && o.Reason == w.Reason)
		}
		if j := slices.IndexFunc(before, same); j >= 0 {
			out[i].Since = before[j].Since
		}
	}
	return out
}

// failureWarnings names the first failed objects, and where to find the rest. Required objects,
// which keep the status from becoming DONE, come first.
func (s *Show) failureWarnings(r report.Reconcile) []protocol.Warning {
	var out []protocol.Warning
	required := slices.DeleteFunc(slices.Clone(r.Failures), func(f report.Failure) bool { return !f.Required })
	others := slices.DeleteFunc(slices.Clone(r.Failures), func(f report.Failure) bool { return f.Required })
	for _, f := range firstOf(append(required, others...), reportedFailures) {
		message := f.Message
		if f.Remedy != "" {
			message += "; " + f.Remedy
		}
		out = append(out, protocol.Warning{Reason: warn.ObjectFailed, Subject: f.Object, Message: message, Since: f.Since.Time})
	}
	if more := r.TotalFailures - len(out); more > 0 {
		what := fmt.Sprintf("and %d more objects fail", more)
		if more == 1 {
			what = "and 1 more object fails"
		}
		out = append(out, protocol.Warning{Reason: warn.ObjectFailed, Message: fmt.Sprintf(
			"%s: see FAILURES in the sidecar status of %s (%s)", what, s.Local.Get().ID, s.cfg.Address)})
	}
	return out
}

func firstOf[T any](all []T, most int) []T { return all[:min(len(all), most)] }

// fleetWarnings returns problems of the fleet, which each node sees by itself.
func fleetWarnings(f upgrade.Facts, own protocol.NodeID) []protocol.Warning {
	var out []protocol.Warning
	for _, text := range digestWarnings(f.Status, f.Fleet) {
		out = append(out, protocol.Warning{Reason: warn.BundlesDiffer, Message: text})
	}
	return append(out, upgrade.Warnings(f, own)...)
}
