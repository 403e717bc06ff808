package protocol

import "fmt"

// Input is every fact that a confirmed leader decides from. Fleet and Status were
// read in one transaction that also confirmed the leadership; nothing in it comes
// from a watch (docs/protocol.md#snapshots).
type Input struct {
	Local    Local
	Fleet    Fleet
	Status   StatusView
	Store    string // the store's ID, read in the same transaction; empty: there is none
	Mark     Mark
	Progress Progress
	// Replacement of the objects' bundle by another one, read in the same transaction.
	Replacement Replacement
}

// Progress is this leader's memory of its epoch so far.
type Progress struct {
	// Finished is the content of the last pass that left all objects and the
	// mark as they should be; the zero Content: none in this epoch.
	Finished     Content
	Owed         int        // objects whose removal that pass left for later
	Due          bool       // a full pass is due, by time or by drift
	APIGone      bool       // this node's kube-apiserver has been unusable for too long
	Predecessors DrainState // of the leaders before this one
}

// Next decides what the leader does now (docs/protocol.md#leader-rules). It is
// total and keeps no memory: in.Progress contains all it needs of the past.
func Next(in Input) Step {
	if step, resigns := resign(in); resigns {
		return step
	}
	if in.Status.Kind == StatusUnknown {
		return Step{Kind: StepHold, Rule: AwaitStatus, Message: "the status has not been read yet"}
	}
	if in.Mark.Store != "" && in.Mark.Store != in.Store {
		return Step{
			Kind: StepHold, Rule: HoldForStore, Reread: true, Message: foreignStore(in.Mark.Store, in.Store),
			Work: Work{Store: in.Store, FallbackEntry: in.fallbackEntry()},
		}
	}
	if step, holds := holdForBundle(in); holds {
		return step
	}
	if in.Status.Kind == StatusPresent {
		return withStatus(in)
	}
	return withoutStatus(in)
}

// foreignStore says why a leader of one store leaves the objects of another one
// alone, and how to correct that.
func foreignStore(theirs, own string) string {
	ours := "has the store ID " + own
	if own == "" {
		ours = "has no store ID"
	}
	return fmt.Sprintf("the objects belong to the control plane of another etcd or prefix: its store ID on the ConfigMap lockstep is %s, "+
		"and the one of this sidecar %s; correct --etcd-servers or --etcd-prefix; "+
		"if this etcd replaces the other one for good: sidecar store adopt --id %s", theirs, ours, theirs)
}

// resign covers ResignWithoutRole, ResignCordoned, ResignForRollback, ResignToNewer and YieldUnreachable. A leader
// whose record is missing or does not match goes on: its sidecar writes the
// record again in a moment, and a step that restricts the status would notice.
func resign(in Input) (Step, bool) {
	eligibility := Eligible(in.Fleet, in.Local)
	step := Step{Kind: StepResign, Reason: eligibility.Reason, Message: eligibility.Message}
	switch {
	case eligibility.Reason == NotController:
		step.Rule = ResignWithoutRole
	case eligibility.Reason == Cordoned:
		step.Rule = ResignCordoned
	case eligibility.Reason == RollingBack:
		step.Rule = ResignForRollback
	case eligibility.Reason == NewerAlive:
		step.Rule = ResignToNewer
	case in.Progress.APIGone: // last: a node that may not lead says that, which does not pass
		step.Rule, step.Reason, step.Withdraw = YieldUnreachable, APIUnreachable, true
		step.Message = "this node's kube-apiserver is unreachable or rejects the kubeconfig's user; stepping down so that another node can lead"
	default:
		return Step{}, false
	}
	return step, true
}

// withoutStatus covers FirstReconciliation and RebuildStatus: the status is absent
// or corrupt.
func withoutStatus(in Input) Step {
	if fin := in.Progress.Finished; fin.Epoch != 0 && fin.Same(in.own()) && fin.Epoch >= in.Mark.HighestEpoch {
		// All objects are in place, and the mark is complete. Whether this was the first
		// reconciliation, or the status was lost after the pass: the target is true.
		return in.write(FirstReconciliation, target(Status{ContentEpoch: fin.Epoch}, in.Local), "all objects are in place")
	}
	if in.Mark.Kind == MarkUnknown {
		return in.survey(RebuildStatus, "there is no status; reading the mark and the objects to see whether the cluster is new")
	}
	if in.Mark.Kind == MarkPresent && in.Mark.FirstDone && len(in.Mark.Entries) > 0 {
		return in.write(RebuildStatus, rebuild(in.Mark, in.Local), "the status was lost; rebuilding it from the mark")
	}
	first := in.change(FirstReconciliation, in.content(in.Mark.newest()), "the first reconciliation")
	first.Work.First = true
	if in.Replacement.To == in.Local.Bundle {
		first.Work.Over = in.Replacement.From
	}
	return first
}

// withStatus covers HoldForNewer, KeepTarget, ApplyContent and WaitForNodes.
func withStatus(in Input) Step {
	now, own := in.Status.Status, in.Local.Version.Release
	if own.Less(now.ContentRelease) && !in.Fleet.Rollback.leads(own) {
		if newer := newerRecords(in.Fleet, own); len(newer) > 0 {
			return Step{
				Kind: StepHold, Rule: HoldForNewer, Blockers: newer,
				Message: fmt.Sprintf(
					"the objects are at release %s and a newer node is still registered: not rolling back, drift repair is paused", now.ContentRelease),
			}
		}
	}
	content := in.content(Content{Release: now.ContentRelease, Digest: now.Digest, Epoch: now.ContentEpoch})
	if now.equalsTarget(in.Local) && content.Epoch == now.ContentEpoch {
		return keepTarget(in, content)
	}
	if !own.Less(now.Version.Release) && !now.MinCompatible.Less(in.Local.Constraints.MinAPIServer) {
		return applyContent(in, content)
	}
	return waitForNodes(in)
}

// keepTarget is KeepTarget: the status is as this leader wants it.
func keepTarget(in Input, content Content) Step {
	now := in.Status.Status
	if now.Epoch != in.Local.Epoch || now.Bundle != in.Local.Bundle {
		// A leader records its epoch before its first write to the API: the next
		// leader learns from it that this one may have requests in flight.
		return in.write(KeepTarget, target(now, in.Local), "recording the new leader")
	}
	p := in.Progress
	switch {
	case p.Finished != content:
		return in.reconcile(KeepTarget, content, "checking all objects once after the election")
	case p.Due:
		return in.reconcile(KeepTarget, content, "a full pass is due")
	case p.Owed > 0 && in.removals():
		return in.reconcile(KeepTarget, content, fmt.Sprintf("removals are due: %d", p.Owed))
	}
	return Step{
		Kind: StepHold, Rule: KeepTarget, Message: "all objects match the bundle",
		Work: Work{Content: content, Store: in.Store, LeaderEpoch: in.Local.Epoch},
	}
}

// applyContent is ApplyContent: no node that is admitted today is shut out.
func applyContent(in Input, content Content) Step {
	now := in.Status.Status
	if content.Epoch != now.ContentEpoch && in.Mark.Kind == MarkUnknown {
		return in.survey(ApplyContent, "the content changes; reading the mark and the objects for the highest content epoch")
	}
	started := now
	started.State = Working
	started.Leader, started.Epoch = in.Local.ID, in.Local.Epoch
	started.Digest, started.ContentRelease, started.ContentEpoch = content.Digest, content.Release, content.Epoch
	started.Bundle = content.Bundle
	if started != now {
		message := "starting to apply the bundle"
		if now.Bundle != "" && now.Bundle != started.Bundle {
			message = fmt.Sprintf("starting to replace the objects of the bundle %s by those of %s", now.Bundle, started.Bundle)
		}
		return in.write(ApplyContent, started, message)
	}
	if in.Progress.Finished != content {
		return in.change(ApplyContent, content, "applying the bundle's objects")
	}
	return in.write(ApplyContent, target(now, in.Local), "all objects are in place")
}

// waitForNodes is WaitForNodes: the status must first admit only nodes that fit
// the objects before and after.
func waitForNodes(in Input) Step {
	now := in.Status.Status
	restricted := restrict(now, in.Local)
	note, remedy := deadlock(now, in.Local)
	if waits := Blockers(now, restricted, in.Fleet, remedy); len(waits) > 0 {
		return Step{Kind: StepAwait, Rule: WaitForNodes, Blockers: waits, Message: unfitNodes(len(waits)) + note}
	}
	step := in.write(WaitForNodes, restricted, "restricting the status to nodes that fit the objects before and after"+ignoredNote(now, restricted, in.Fleet))
	step.Guard.FleetRevision = in.Fleet.Revision
	return step
}

func unfitNodes(n int) string {
	if n == 1 {
		return "1 registered node fits the current objects, but not the new ones"
	}
	return fmt.Sprintf("%d registered nodes fit the current objects, but not the new ones", n)
}

// deadlock says so where the leader waits for nodes that wait for it: its release
// raises both constraints above the objects (docs/protocol.md#releases-that-can-roll).
// The remedy is for each node that the leader waits for: where there is a deadlock, no
// node might be ready while such a node is upgraded.
func deadlock(now Status, local Local) (note, remedy string) {
	m := local.Constraints.MinReconciler
	if !now.Version.Release.Less(m) {
		return "", upgradeIt
	}
	note = fmt.Sprintf("; %s is not ready before the new objects either, because "+
		"minReconcilerRelease %s and minApiserverRelease %s are both above %s: this release cannot be rolled out node by node; "+
		"roll %s back to %s, and first roll out a release that raises only one of the two",
		local.ID, m, local.Constraints.MinAPIServer, now.Version.Release, local.ID, now.Version.Release)
	return note, fmt.Sprintf("do not upgrade it now, which would be an outage: roll %s back to %s", local.ID, now.Version.Release)
}

// equalsTarget compares state, version, minimum and digest.
func (s Status) equalsTarget(local Local) bool {
	t := target(s, local)
	return s.State == t.State && s.Version == t.Version && s.MinCompatible == t.MinCompatible && s.Digest == t.Digest
}

// own is the content that this leader's bundle wants, without an epoch.
func (in Input) own() Content {
	return Content{
		Release: in.Local.Version.Release, Constraints: in.Local.Constraints, Digest: in.Local.Digest, Bundle: in.Local.Bundle,
	}
}

// content gives the leader's own content its epoch. That is the epoch of the
// newest known content if it is the same and its epoch counts, else the next one
// (docs/protocol.md#content-epoch).
func (in Input) content(newest Content) Content {
	own, credible := in.own(), credibleEpoch(newest.Epoch, in.Mark.HighestEpoch)
	own.Epoch = newest.Epoch
	if newest.Epoch == 0 || !own.Same(newest) || newest.Epoch != credible {
		own.Epoch = nextEpoch(credible)
	}
	return own
}

// removals reports whether dropped objects may be deleted now.
func (in Input) removals() bool {
	return in.Local.PruneImmediately || removalsDue(in.Fleet, in.Local.Version.Release)
}

// survey asks for the mark.
func (in Input) survey(rule Rule, message string) Step {
	return Step{Kind: StepSurvey, Rule: rule, Message: message, Work: Work{Store: in.Store, FallbackEntry: in.fallbackEntry()}}
}

// reconcile keeps the objects at a content that is there already.
func (in Input) reconcile(rule Rule, c Content, message string) Step {
	return Step{
		Kind: StepReconcile, Rule: rule, Message: message,
		Work: Work{
			Content: c, Removals: in.removals(), Store: in.Store, LeaderEpoch: in.Local.Epoch, FallbackEntry: in.fallbackEntry(),
		},
	}
}

// change brings the objects to a content. DONE follows, so nothing of other
// content may land after the last list (docs/protocol-objects.md#stale-writes).
func (in Input) change(rule Rule, c Content, message string) Step {
	if in.Progress.Predecessors == Undrained {
		message += fmt.Sprintf("; the previous leader may still have requests in flight, so this takes at least %.0f s from the election on",
			DrainTime(in.Local.EtcdElectionTimeout).Seconds())
	}
	step := in.reconcile(rule, c, message)
	step.Work.Wait = true
	return step
}

// fallbackEntry is the entry of a mark that must be written again.
func (in Input) fallbackEntry() Content {
	if in.Status.Kind != StatusPresent {
		return Content{}
	}
	return in.Status.Status.Covered()
}

func (in Input) write(rule Rule, s Status, message string) Step {
	step := Step{
		Kind: StepWrite, Rule: rule, Message: message, Status: s,
		Guard: Guard{Epoch: in.Local.Epoch, StatusRevision: in.Status.Revision},
	}
	if s.Bundle == in.Replacement.To {
		step.Guard.ReplacementRevision = in.Replacement.Revision // used once
	}
	return step
}
