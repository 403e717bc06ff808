package model

import (
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// elect gives the leadership to a candidate. The candidate may campaign according
// to the fleet as it is now. That a newer node joins afterwards, unseen by the
// candidate, is another move.
func (t *transition) elect(i int) bool {
	if !t.mayEnter(i) {
		return false
	}
	slot := 0
	if t.state.leaders[0].on {
		slot = 1
	}
	if t.state.leaders[slot].on {
		t.event.noRoom = true
		return true
	}
	t.state.leaders[slot] = leader{on: true, node: uint8(i), key: true, epoch: uint8(slot + 1)}
	t.say("%s is elected", t.name(i))
	if t.cfg.Coarse {
		t.observe(slot)
	}
	return true
}

// mayEnter reports whether a node may enter the election, and would be the first there.
func (t *transition) mayEnter(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.leaving != notLeaving || !n.registered || !n.alive || t.state.deadKey || t.leadership(i) >= 0 || t.keyHeld() {
		return false
	}
	return !n.withdrawn && !n.services.held && !n.behind && (!n.cordoned || t.cfg.holds(cordonedMakesWay)) && t.mayCampaign(i)
}

// expireKey lets the lease of a dead leader's key expire.
func (t *transition) expireKey() bool {
	if !t.state.deadKey || !t.cfg.holds(keysExpire) {
		return false
	}
	t.state.deadKey = false
	t.say("the key of the dead leader expires")
	return true
}

// resign ends a leadership gracefully. The status that it records shows the next leader
// whether it must wait (docs/protocol-objects.md#drain).
func (t *transition) resign(l int) {
	lead := &t.state.leaders[l]
	t.abandon(l)
	facts := t.resignFacts(l)
	if st, drained := protocol.Drain(facts); drained && lead.seen && lead.key {
		t.traceResign(l, facts, st)
		t.say("  and records that none of its requests can still land")
		now := t.cfg.packed(st)
		t.event.committed, t.event.byLeader = true, lead.key
		t.event.was, t.event.now = t.state.status, now
		t.event.wasEpoch, t.event.epoch = t.state.status.epoch, lead.epoch
		t.setStatus(now)
	}
	t.depose(l)
}

// resignFacts returns the facts that a leader knows when it gives up its key.
func (t *transition) resignFacts(l int) protocol.ResignFacts {
	lead := &t.state.leaders[l]
	f := protocol.ResignFacts{
		Status: t.cfg.view(t.state.status), Epoch: formerEpoch + int64(lead.epoch), Predecessors: lead.predecessors,
		Waited: t.othersEnded(l), Ended: t.ownEnded(l, entry{}),
	}
	if t.cfg.forgets(t.state.nodes[lead.node].run) {
		f.Status.Status.Bundle = ""
	}
	if !t.cfg.holds(drainInherits) {
		f.Predecessors = protocol.Drained
	}
	if !t.cfg.holds(knownOutcomes) {
		f.Ended = true
	}
	return f
}

// keyHeld reports whether a sidecar that runs keeps a candidate's key.
func (t *transition) keyHeld() bool {
	return slices.ContainsFunc(t.state.leaders[:], func(l leader) bool { return l.on && l.key }) ||
		slices.ContainsFunc(t.state.nodes[:], func(n node) bool { return n.keyLeft })
}

// depose ends a leadership. Its requests that are under way may still land.
func (t *transition) depose(l int) {
	t.abandon(l)
	if l == 0 {
		t.state.leaders[0] = t.state.leaders[1]
	}
	t.state.leaders[1] = leader{}
	t.dropCounts(l)
	t.renumber(l)
}

// renumber keeps each epoch equal to a place in state.leaders, after leader l was
// removed.
func (t *transition) renumber(l int) {
	gone := uint8(l + 1)
	lower := func(epoch *uint8) {
		switch {
		case *epoch == gone:
			*epoch = 0
		case *epoch > gone:
			*epoch--
		}
	}
	lower(&t.state.status.epoch)
	lower(&t.state.parent.leader)
	for i := range t.state.leaders {
		lead := &t.state.leaders[i]
		lower(&lead.epoch)
		if lead.write.status.kind == protocol.StatusPresent {
			lower(&lead.write.status.epoch)
		}
		lower(&lead.pass.request.leader)
	}
	for i := range t.state.orphans {
		lower(&t.state.orphans[i].leader)
	}
}

// observe is one round of a leader's loop: a snapshot, a decision, and the part
// of the step that happens at once.
func (t *transition) observe(l int) bool {
	lead := &t.state.leaders[l]
	if !lead.on || lead.doing == writing {
		return false
	}
	if !lead.key && t.cfg.holds(confirmed) {
		t.say("%s finds that it no longer leads", t.name(int(lead.node)))
		t.depose(l)
		return true
	}
	if !lead.seen && t.awaitsRestore(l) {
		return false
	}
	restored := t.isRestored(l)
	if !lead.seen {
		lead.seen, lead.predecessors = true, protocol.DrainStateOf(t.cfg.view(t.state.status), restored)
	}
	counted := t.countAbsences(l)
	counted = t.chooseDeletions(l) || counted
	step := t.next(l)
	t.count.step(step)
	t.traceRound(l, step)
	return t.execute(l, step) || counted
}

// next is the leader's decision on the facts of this moment. The core is pure, so
// its answers are kept.
func (t *transition) next(l int) *protocol.Step { return t.nextFor(l, t.decisionKeyOf(l)) }

func (t *transition) nextFor(l int, key decisionKey) *protocol.Step {
	if step, found := t.memo.steps[key]; found {
		return step
	}
	in := t.cfg.input(t.state, l)
	in.Progress.APIGone = key.gone
	step := t.cfg.mutated(t.state, in)
	t.memo.steps[key] = &step
	return &step
}

// input collects the facts for the decision of a leader.
func (c *Config) input(st *state, l int) protocol.Input {
	lead := &st.leaders[l]
	local := c.local(st, int(lead.node))
	local.Epoch = formerEpoch + int64(lead.epoch)
	view := c.view(st.status)
	if st.status.epoch == lead.epoch && st.status.epoch != 0 {
		view.Status.Leader = local.ID
	}
	in := protocol.Input{Store: c.store(), Local: local, Fleet: c.fleetSeenBy(st, l), Status: view, Mark: c.mark(lead.mark)}
	c.withNames(st, st.nodes[lead.node].run, &in)
	in.Fleet.Rollback = protocol.Rollback{}
	c.withRollback(&in.Fleet, st.rollback, st.nodes[lead.node].run)
	in.Progress.Owed, in.Progress.Due, in.Progress.Predecessors = int(lead.owed), lead.due, lead.predecessors
	if lead.finished != (entry{}) {
		in.Progress.Finished = c.content(lead.finished)
	}
	return in
}

// execute carries out the part of a step that happens at once, and reports
// whether anything changed.
func (t *transition) execute(l int, step *protocol.Step) bool {
	lead := &t.state.leaders[l]
	name := t.name(int(lead.node))
	switch step.Kind {
	case protocol.StepResign:
		t.say("%s resigns (%s)", name, step.Rule)
		t.state.nodes[lead.node].withdrawn = step.Withdraw
		t.resign(l)
		return true
	case protocol.StepHold:
		return t.hold(l, step)
	case protocol.StepAwait, protocol.StepUnset:
		return t.stop(l, step)
	case protocol.StepSurvey:
		return t.surveyFor(l, step)
	case protocol.StepReconcile:
		return t.begin(l, step)
	case protocol.StepWrite:
		t.abandon(l)
		t.say("%s takes a snapshot and decides to write %s (%s)", name, t.statusText(t.cfg.packed(step.Status)), step.Rule)
		lead.doing, lead.write = writing, t.decided(step)
		t.event.rollsBack = t.rollsBack(l, lead.write.status)
		return true
	}
	return false
}

// stop ends the pass of a leader for a step that writes nothing. A leader does not leave a
// step that rests on the mark of another store: only people change whose the
// parent is, so the model does not read it again.
func (t *transition) stop(l int, step *protocol.Step) bool {
	lead := &t.state.leaders[l]
	if lead.doing == nothing {
		return false
	}
	t.say("%s stops its pass: %s", t.name(int(lead.node)), step)
	t.abandon(l)
	return true
}

// rollsBack reports whether a status brings content that is older than the
// content of the current status, and older than a registered node whose
// record has not expired.
func (t *transition) rollsBack(l int, s status) bool {
	if t.state.status.kind != protocol.StatusPresent || s.content.content == 0 {
		return false
	}
	r := t.cfg.releaseOf(s.content.content)
	if int(t.state.rollback) == r {
		return false // people asked for that
	}
	if r >= t.cfg.releaseOf(t.state.status.content.content) {
		return false
	}
	return slices.ContainsFunc(t.state.nodes[:], func(n node) bool {
		return n.record != 0 && n.record != corrupt && (n.serves || !n.roleless) && t.cfg.releaseOf(n.record) > r && n.expired&bit(l) == 0
	})
}

// decided is the write of a step, before it is committed.
func (t *transition) decided(step *protocol.Step) write {
	out := write{
		status: t.cfg.packed(step.Status), guarded: true,
		absent: step.Guard.StatusRevision == 0, unchanged: true, replaces: step.Guard.ReplacementRevision != 0,
	}
	if step.Guard.FleetRevision != 0 {
		out.fleet = unmodified
	}
	return out
}

// begin starts a pass, unless a pass for the same work is under way.
func (t *transition) begin(l int, step *protocol.Step) bool {
	lead := &t.state.leaders[l]
	content := t.cfg.entry(step.Work.Content)
	if lead.doing == passing && lead.pass.content == content && lead.pass.removals == step.Work.Removals {
		return false
	}
	t.abandon(l)
	m, ok := t.cfg.packedMark(t.cfg.mark(lead.mark).With(step.Work.Content))
	if !ok {
		t.event.noRoom = true
		return true
	}
	t.say("%s begins a pass over the objects for %s at content epoch %d (%s)",
		t.name(int(lead.node)), t.contentText(content.content), content.epoch, step.Rule)
	t.traceBegin(l, step)
	t.noteRemovals(l, step)
	first := t.state.status.kind != protocol.StatusPresent && !lead.mark.firstDone
	lead.mark = m
	if lead.finished != content {
		lead.finished = entry{} // the pass is about to apply other content
	}
	lead.doing, lead.pass = passing, pass{
		content: content, removals: step.Work.Removals, first: first,
		wait: step.Work.Wait, fallback: t.cfg.entry(step.Work.FallbackEntry),
	}
	if t.cfg.Coarse && !t.state.nodes[lead.node].unusable {
		t.list(l)
	}
	return true
}

// abandon stops the work of a leader. A request that it sent may still
// land.
func (t *transition) abandon(l int) {
	t.tracePass(l, trace.End{})
	lead := &t.state.leaders[l]
	if lead.pass.request.kind != noRequest {
		t.orphan(lead.pass.request)
	}
	lead.doing, lead.pass, lead.write = nothing, pass{}, write{}
}

// orphan keeps a request whose sender no longer waits for it. It may land later.
func (t *transition) orphan(r request) {
	for i := range t.state.orphans {
		if o := &t.state.orphans[i]; o.kind == noRequest || t.doomed(*o) {
			*o = r
			return
		}
	}
	t.event.noRoom = true
}

// commit is the transaction that writes the status, with the guards of
// status.Store.Write.
func (t *transition) commit(l int) bool {
	lead := &t.state.leaders[l]
	if !lead.on || lead.doing != writing {
		return false
	}
	w, name := lead.write, t.name(int(lead.node))
	t.traceWrite(l)
	lead.doing, lead.write = nothing, noWrite
	if !t.guardHolds(lead, w) {
		t.say("%s does not write the status: the guard fails", name)
		return true
	}
	t.event.committed, t.event.byLeader = true, lead.key
	t.event.was, t.event.now = t.state.status, w.status
	t.event.wasEpoch, t.event.epoch = t.state.status.epoch, lead.epoch
	if w.fleet != notAsked {
		t.event.restriction, t.event.restrictFleet = true, t.cfg.fleetAtCommit(t.state, l)
	}
	t.say("%s writes the status %s", name, t.statusText(w.status))
	if w.replaces {
		t.state.replacement, t.state.asked = noName, t.state.asked|1<<w.status.name
	}
	t.setStatus(w.status)
	return true
}

// noWrite is the value if no write is pending.
var noWrite write

// guardHolds evaluates the guards of a write.
func (t *transition) guardHolds(lead *leader, w write) bool {
	switch {
	case !lead.key && t.cfg.holds(leaderGuard):
		return false
	case w.absent && t.state.status.kind != protocol.StatusAbsent:
		return false
	case !w.absent && !w.unchanged:
		return false
	case w.replaces && t.state.replacement == noName:
		return false
	}
	return w.fleet != modified || !t.cfg.holds(nodesGuard)
}

// setStatus changes the status key. A node that did not see the previous value
// may receive it late.
func (t *transition) setStatus(s status) {
	was := t.state.status
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		if t.cfg.Coarse || n.run == 0 || n.leaving != notLeaving || !n.registered || n.ready || n.staleRead ||
			was.kind != protocol.StatusPresent {
			continue
		}
		n.staleRead = t.verdict(i, was).Ready
	}
	t.state.status, t.state.old = s, false
	t.spoilEnding()
	for l := range t.state.leaders {
		t.state.leaders[l].write.unchanged = false
	}
}
