package protocol

import "fmt"

// Input is every fact that a confirmed leader decides from. Fleet and Status
// were read in one transaction that also confirmed the leadership; nothing in
// it comes from a watch (DESIGN 4.3).
type Input struct {
	Local    Local
	Fleet    Fleet
	Status   StatusView
	Mark     Mark
	Progress Progress
}

// Progress is what this leader has done in this epoch.
type Progress struct {
	// Finished is the content of the last pass that left all objects and the
	// mark as they should be; the zero Content: none in this epoch.
	Finished Content
	Owed     int  // objects whose removal that pass left for later (6.3)
	Due      bool // a full pass is due, by time or by drift (6.5)
	APIGone  bool // the own apiserver has been out of reach for too long (4.7)
	Past     Past // of the leaders before this one
}

// Next decides what the leader does now (DESIGN 4.5). It is total and has no
// memory: what it has to know of the past stands in in.Progress.
func Next(in Input) Step {
	if step, resigns := resign(in); resigns {
		return step
	}
	switch in.Status.Kind {
	case StatusPresent:
		return withStatus(in)
	case StatusAbsent, StatusUndecodable:
		return withoutStatus(in)
	case StatusUnknown:
	}
	return Step{Kind: StepHold, Rule: AwaitStatus, Message: "the status has not been read yet"}
}

// resign covers ResignWithoutRole, ResignToNewer and YieldUnreachable. A leader
// whose record is missing or does not match goes on: its sidecar writes the
// record again in a moment, and a step that restricts the status would notice.
func resign(in Input) (Step, bool) {
	eligibility := Eligible(in.Fleet, in.Local)
	step := Step{Kind: StepResign, Reason: eligibility.Reason, Message: eligibility.Message}
	switch {
	case eligibility.Reason == NotController:
		step.Rule = ResignWithoutRole
	case eligibility.Reason == NewerAlive:
		step.Rule = ResignToNewer
	case in.Progress.APIGone:
		step.Rule, step.Reason, step.Withdraw = YieldUnreachable, APIUnreachable, true
		step.Message = "this node's kube-apiserver is unreachable or rejects the kubeconfig's user; stepping down so that another node can lead"
	default:
		return Step{}, false
	}
	return step, true
}

// withoutStatus covers FirstReconciliation and RebuildStatus: the status is
// absent or corrupt.
func withoutStatus(in Input) Step {
	if fin := in.Progress.Finished; fin.Epoch != 0 && fin.Same(in.own()) && fin.Epoch >= in.Mark.HighestEpoch {
		// All objects are in place and the mark says so: whether this was the
		// first reconciliation or the status was lost since, the target is true.
		return in.write(FirstReconciliation, Target(Status{ContentEpoch: fin.Epoch}, in.Local), "all objects are in place")
	}
	if in.Mark.Kind == MarkUnknown {
		return in.survey(RebuildStatus, "there is no status: the objects have to tell whether the cluster is new")
	}
	if in.Mark.Kind == MarkPresent && in.Mark.FirstDone && len(in.Mark.Entries) > 0 {
		return in.write(RebuildStatus, Rebuild(in.Mark, in.Local), "the status was lost and is rebuilt from the mark")
	}
	first := in.change(FirstReconciliation, in.content(in.Mark.newest()), "the first reconciliation")
	first.Work.First = true
	return first
}

// withStatus covers HoldForNewer, KeepTarget, ApplyContent and WaitForNodes.
func withStatus(in Input) Step {
	now, own := in.Status.Status, in.Local.Version.Release
	if own.Less(now.ContentRelease) {
		if newer := newerRecords(in.Fleet, own); len(newer) > 0 {
			return Step{
				Kind: StepHold, Rule: HoldForNewer, Blockers: newer,
				Message: fmt.Sprintf("the objects are of release %s and a node of a newer release is registered: nothing is taken back, nothing is repaired", now.ContentRelease),
			}
		}
	}
	content := in.content(Content{Release: now.ContentRelease, Digest: now.Digest, Epoch: now.ContentEpoch})
	if now.equalsTarget(in.Local) && content.Epoch == now.ContentEpoch {
		return keep(in, content)
	}
	if !own.Less(now.Version.Release) && !now.MinCompatible.Less(in.Local.Constraints.MinApiserver) {
		return work(in, content)
	}
	return restrict(in)
}

// keep is KeepTarget: the status is as this leader wants it.
func keep(in Input, content Content) Step {
	now := in.Status.Status
	if now.Epoch != in.Local.Epoch {
		// A leader records its epoch before its first write to the API (6.4).
		return in.write(KeepTarget, Target(now, in.Local), "the new leader records itself")
	}
	p := in.Progress
	switch {
	case p.Finished != content:
		return in.reconcile(KeepTarget, content, "once in each epoch")
	case p.Due:
		return in.reconcile(KeepTarget, content, "a full pass is due")
	case p.Owed > 0 && in.removals():
		return in.reconcile(KeepTarget, content, fmt.Sprintf("removals fall due: %d", p.Owed))
	}
	return Step{
		Kind: StepHold, Rule: KeepTarget, Message: "the objects are as the bundle wants them",
		Work: Work{Content: content, LeaderEpoch: in.Local.Epoch},
	}
}

// work is ApplyContent: nothing that is admitted today becomes inadmissible.
func work(in Input, content Content) Step {
	now := in.Status.Status
	if content.Epoch != now.ContentEpoch && in.Mark.Kind == MarkUnknown {
		return in.survey(ApplyContent, "the content changes: its epoch has to be above that of any object")
	}
	working := now
	working.State = Working
	working.Leader, working.Epoch = in.Local.ID, in.Local.Epoch
	working.Digest, working.ContentRelease, working.ContentEpoch = content.Digest, content.Release, content.Epoch
	if working != now {
		return in.write(ApplyContent, working, "work begins")
	}
	if in.Progress.Finished != content {
		return in.change(ApplyContent, content, "the objects become those of the bundle")
	}
	return in.write(ApplyContent, Target(now, in.Local), "all objects are in place")
}

// restrict is WaitForNodes: the status must first admit only what fits both before
// and after.
func restrict(in Input) Step {
	now := in.Status.Status
	restricted := Restrict(now, in.Local)
	if blockers := Blockers(now, restricted, in.Fleet); len(blockers) > 0 {
		return Step{
			Kind: StepAwait, Rule: WaitForNodes, Blockers: blockers,
			Message: nodesFit(len(blockers)) + " the objects as they are, but not as they become" + cannotRoll(now, in.Local),
		}
	}
	step := in.write(WaitForNodes, restricted, "the status is restricted to nodes that fit before and after"+passedOver(now, restricted, in.Fleet))
	step.Guard.FleetRevision = in.Fleet.Revision
	return step
}

// cannotRoll says so where the leader waits for nodes that wait for it: its
// release raises both constraints above what is there (4.10).
func cannotRoll(now Status, local Local) string {
	if m := local.Constraints.MinReconciler; now.Version.Release.Less(m) {
		return fmt.Sprintf("; and this node is not ready before they do: minReconcilerRelease %s and minApiserverRelease %s are both above %s, so this release cannot be rolled out node by node",
			m, local.Constraints.MinApiserver, now.Version.Release)
	}
	return ""
}

func nodesFit(n int) string {
	if n == 1 {
		return "1 registered node fits"
	}
	return fmt.Sprintf("%d registered nodes fit", n)
}

// equalsTarget compares what KeepTarget asks: state, version, minimum, digest.
func (s Status) equalsTarget(local Local) bool {
	t := Target(s, local)
	return s.State == t.State && s.Version == t.Version && s.MinCompatible == t.MinCompatible && s.Digest == t.Digest
}

// own is the content that this leader's bundle wants, without an epoch.
func (in Input) own() Content {
	return Content{Release: in.Local.Version.Release, Constraints: in.Local.Constraints, Digest: in.Local.Digest}
}

// content gives the own content its epoch: that of the newest known content if
// it is the same and no object bears a higher one, else one above all (6.4).
func (in Input) content(newest Content) Content {
	own := in.own()
	own.Epoch = newest.Epoch
	if newest.Epoch == 0 || !own.Same(newest) || newest.Epoch < in.Mark.HighestEpoch {
		own.Epoch = 1 + max(newest.Epoch, in.Mark.HighestEpoch)
	}
	return own
}

// removals reports whether dropped objects may go now (6.3).
func (in Input) removals() bool {
	return in.Local.PruneImmediately || removalsDue(in.Fleet, in.Local.Version.Release)
}

// survey asks for the mark.
func (in Input) survey(rule Rule, message string) Step {
	return Step{Kind: StepSurvey, Rule: rule, Message: message, Work: Work{Beside: in.beside()}}
}

// reconcile keeps the objects at a content that is there already.
func (in Input) reconcile(rule Rule, c Content, message string) Step {
	return Step{
		Kind: StepReconcile, Rule: rule, Message: message,
		Work: Work{Content: c, Removals: in.removals(), LeaderEpoch: in.Local.Epoch, Beside: in.beside()},
	}
}

// change brings the objects to a content. DONE follows, so nothing may land
// after its last list that is not of this content (6.4).
func (in Input) change(rule Rule, c Content, message string) Step {
	if in.Progress.Past == PastUndrained {
		message += fmt.Sprintf("; the leader before may have requests under way, so this is done %.0f s after the election at the earliest", DrainTime.Seconds())
	}
	step := in.reconcile(rule, c, message)
	step.Work.Wait = true
	return step
}

// beside is what a mark has to say that is made anew.
func (in Input) beside() Content {
	if in.Status.Kind != StatusPresent {
		return Content{}
	}
	return in.Status.Status.covers()
}

func (in Input) write(rule Rule, s Status, message string) Step {
	return Step{
		Kind: StepWrite, Rule: rule, Message: message, Status: s,
		Guard: Guard{Epoch: in.Local.Epoch, StatusRevision: in.Status.Revision},
	}
}
