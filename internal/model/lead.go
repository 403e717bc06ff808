package model

import (
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// elect makes a candidate the first in the queue. That it may campaign is
// judged by the fleet as it is; that a newer node comes alive afterwards, and
// that the candidate has not seen it, is another move.
func (t *turn) elect(i int) bool {
	n := &t.w.nodes[i]
	if n.run == 0 || !n.registered || !n.alive || t.w.ghost || t.leadership(i) >= 0 || t.keyStands() {
		return false
	}
	if !t.mayCampaign(i) {
		return false
	}
	slot := 0
	if t.w.leaders[0].on {
		slot = 1
	}
	if t.w.leaders[slot].on {
		t.event.bound = true
		return true
	}
	t.w.leaders[slot] = leader{on: true, node: uint8(i), key: true, epoch: uint8(slot + 1)}
	t.say("%s is elected", t.name(i))
	if t.cfg.Coarse {
		t.look(slot)
	}
	return true
}

// resign ends a leadership in good order: what is recorded tells the next
// leader whether it has to wait (election.leadership.giveUp).
func (t *turn) resign(l int) {
	lead := &t.w.leaders[l]
	t.abandon(l)
	if st, drained := protocol.Drain(t.farewell(l)); drained && lead.seen && lead.key {
		t.say("  and leaves nothing behind that can land")
		now := t.cfg.packed(st)
		t.event.committed, t.event.byLeader = true, lead.key
		t.event.was, t.event.now = t.w.status, now
		t.event.wasEpoch, t.event.epoch = t.w.status.epoch, lead.epoch
		t.setStatus(now)
	}
	t.depose(l)
}

// farewell is what a leader knows that gives its key up.
func (t *turn) farewell(l int) protocol.ResignFacts {
	lead := &t.w.leaders[l]
	f := protocol.ResignFacts{
		Status: t.cfg.view(t.w.status), Epoch: formerEpoch + int64(lead.epoch), Predecessors: lead.past,
		Waited: t.othersEnded(l), Ended: t.ownEnded(l, entry{}),
	}
	if !t.cfg.holds(DrainInherits) {
		f.Predecessors = protocol.Drained
	}
	if !t.cfg.holds(KnownOutcomes) {
		f.Ended = true
	}
	return f
}

func (t *turn) keyStands() bool {
	return slices.ContainsFunc(t.w.leaders[:], func(l leader) bool { return l.on && l.key })
}

// depose ends a leadership. Requests that are under way may still land.
func (t *turn) depose(l int) {
	t.abandon(l)
	if l == 0 {
		t.w.leaders[0] = t.w.leaders[1]
	}
	t.w.leaders[1] = leader{}
	t.forget(l)
	t.renumber(l)
}

// renumber keeps epochs the places in World.leaders after leader l has gone.
func (t *turn) renumber(l int) {
	gone := uint8(l + 1)
	move := func(epoch *uint8) {
		switch {
		case *epoch == gone:
			*epoch = 0
		case *epoch > gone:
			*epoch--
		}
	}
	move(&t.w.status.epoch)
	move(&t.w.parent.leader)
	for i := range t.w.leaders {
		lead := &t.w.leaders[i]
		move(&lead.epoch)
		if lead.write.status.kind == protocol.StatusPresent {
			move(&lead.write.status.epoch)
		}
		move(&lead.pass.request.leader)
	}
	for i := range t.w.orphans {
		move(&t.w.orphans[i].leader)
	}
}

// look is one turn of a leader's loop: snapshot, decision, and the part of the
// step that happens at once.
func (t *turn) look(l int) bool {
	lead := &t.w.leaders[l]
	if !lead.on || lead.doing == writing {
		return false
	}
	if !lead.key && t.cfg.holds(Confirmed) {
		t.say("%s finds that it does not lead any more", t.name(int(lead.node)))
		t.depose(l)
		return true
	}
	if !lead.seen {
		lead.seen, lead.past = true, protocol.DrainStateOf(t.cfg.view(t.w.status), false)
	}
	counted := t.counts(l)
	step := t.next(l)
	t.count.step(step)
	return t.execute(l, step) || counted
}

// next asks the core what to do, by the facts of this moment. The core is pure,
// so its answers are kept.
func (t *turn) next(l int) *protocol.Step {
	key := t.factsOf(l)
	if step, found := t.memo.steps[key]; found {
		return step
	}
	step := t.cfg.mutated(t.w, t.cfg.input(t.w, l))
	t.memo.steps[key] = &step
	return &step
}

// input gathers the facts of a leader.
func (c *Config) input(w *World, l int) protocol.Input {
	lead := &w.leaders[l]
	local := c.local(w, int(lead.node))
	local.Epoch = formerEpoch + int64(lead.epoch)
	view := c.view(w.status)
	if w.status.epoch == lead.epoch && w.status.epoch != 0 {
		view.Status.Leader = local.ID
	}
	in := protocol.Input{Local: local, Fleet: c.seenBy(w, l), Status: view, Mark: c.mark(lead.mark)}
	in.Progress.Due, in.Progress.Predecessors = lead.due, lead.past
	if lead.finished != (entry{}) {
		in.Progress.Finished = c.content(lead.finished)
	}
	return in
}

// execute carries a step out as far as it happens at once, and reports whether
// anything changed.
func (t *turn) execute(l int, step *protocol.Step) bool {
	lead := &t.w.leaders[l]
	name := t.name(int(lead.node))
	switch step.Kind {
	case protocol.StepResign:
		t.say("%s resigns (%s)", name, step.Rule)
		t.resign(l)
		return true
	case protocol.StepHold, protocol.StepAwait, protocol.StepUnset:
		if lead.doing == nothing {
			return false
		}
		t.say("%s stops its pass: %s", name, step)
		t.abandon(l)
		return true
	case protocol.StepSurvey:
		stopped := lead.doing != nothing
		t.abandon(l)
		beside := t.cfg.entry(step.Work.FallbackEntry)
		if t.needsStamps(beside) && !t.stampsServe(l) {
			return stopped // and waits
		}
		t.say("%s looks for the mark and the stamps in the API (%s)", name, step.Rule)
		lead.mark = t.survey(beside)
		lead.past = lead.past.Surveyed(t.cfg.mark(lead.mark))
		return true
	case protocol.StepReconcile:
		return t.begin(l, step)
	case protocol.StepWrite:
		t.abandon(l)
		t.say("%s takes a snapshot and decides to write %s (%s)", name, t.statusWords(t.cfg.packed(step.Status)), step.Rule)
		lead.doing, lead.write = writing, t.decided(step)
		t.event.takesBack = t.takesBack(l, lead.write.status)
		return true
	}
	return false
}

// takesBack reports whether a status brings content that is older than what the
// status tells now and than a node that is registered and not expired.
func (t *turn) takesBack(l int, s status) bool {
	if t.w.status.kind != protocol.StatusPresent || s.content.content == 0 {
		return false
	}
	r := t.cfg.releaseOf(s.content.content)
	if r >= t.cfg.releaseOf(t.w.status.content.content) {
		return false
	}
	return slices.ContainsFunc(t.w.nodes[:], func(n node) bool {
		return n.record != 0 && n.record != corrupt && t.cfg.releaseOf(n.record) > r && n.expired&place(l) == 0
	})
}

// decided is a write as it waits to be committed.
func (t *turn) decided(step *protocol.Step) write {
	out := write{
		status: t.cfg.packed(step.Status), guarded: true,
		absent: step.Guard.StatusRevision == 0, unchanged: true,
	}
	if step.Guard.FleetRevision != 0 {
		out.fleet = unmodified
	}
	return out
}

// begin starts a pass, unless the one that is under way is of the same work.
func (t *turn) begin(l int, step *protocol.Step) bool {
	lead := &t.w.leaders[l]
	content := t.cfg.entry(step.Work.Content)
	if lead.doing == passing && lead.pass.content == content && lead.pass.removals == step.Work.Removals {
		return false
	}
	t.abandon(l)
	m, ok := t.cfg.packedMark(t.cfg.mark(lead.mark).With(step.Work.Content))
	if !ok {
		t.event.bound = true
		return true
	}
	t.say("%s begins a pass over the objects for %s at content epoch %d (%s)",
		t.name(int(lead.node)), t.words(content.content), content.epoch, step.Rule)
	first := t.w.status.kind != protocol.StatusPresent && !lead.mark.firstDone
	lead.mark = m
	lead.doing, lead.pass = passing, pass{
		content: content, removals: step.Work.Removals, first: first,
		wait: step.Work.Wait, beside: t.cfg.entry(step.Work.FallbackEntry),
	}
	if t.cfg.Coarse {
		t.list(l)
	}
	return true
}

// abandon stops the pass of a leader. Its request may have been received.
func (t *turn) abandon(l int) {
	lead := &t.w.leaders[l]
	if lead.doing == passing && lead.pass.request.kind != noRequest {
		t.orphan(lead.pass.request)
	}
	lead.doing, lead.pass, lead.write = nothing, pass{}, write{}
}

// orphan keeps a request whose sender no longer waits for it. It may land later.
func (t *turn) orphan(r request) {
	for i := range t.w.orphans {
		if o := &t.w.orphans[i]; o.kind == noRequest || t.doomed(*o) {
			*o = r
			return
		}
	}
	t.event.bound = true
}

// commit is the transaction that writes the status, with the guards of
// status.Store.Write.
func (t *turn) commit(l int) bool {
	lead := &t.w.leaders[l]
	if !lead.on || lead.doing != writing {
		return false
	}
	write, name := lead.write, t.name(int(lead.node))
	lead.doing, lead.write = nothing, noWrite
	if !t.holds(lead, write) {
		t.say("%s does not write the status: the guard does not hold", name)
		return true
	}
	t.event.committed, t.event.byLeader = true, lead.key
	t.event.was, t.event.now = t.w.status, write.status
	t.event.wasEpoch, t.event.epoch = t.w.status.epoch, lead.epoch
	if write.fleet != notAsked {
		t.event.restriction, t.event.restrictFleet = true, t.cfg.passedOver(t.w, l)
	}
	t.say("%s writes the status %s", name, t.statusWords(write.status))
	t.setStatus(write.status)
	return true
}

// noWrite stands where none is pending.
var noWrite write

// holds evaluates the guards of a write.
func (t *turn) holds(lead *leader, w write) bool {
	switch {
	case !lead.key && t.cfg.holds(LeaderGuard):
		return false
	case w.absent && t.w.status.kind != protocol.StatusAbsent:
		return false
	case !w.absent && !w.unchanged:
		return false
	}
	return w.fleet != modified || !t.cfg.holds(NodesGuard)
}

// setStatus changes the status key. Nodes that have not seen what stood there
// may be told of it later.
func (t *turn) setStatus(s status) {
	was := t.w.status
	for i := range t.cfg.Nodes {
		n := &t.w.nodes[i]
		if t.cfg.Coarse || n.run == 0 || !n.registered || n.ready || n.late || was.kind != protocol.StatusPresent {
			continue
		}
		n.late = t.judge(i, was).Ready
	}
	t.w.status = s
	for l := range t.w.leaders {
		t.w.leaders[l].write.unchanged = false
	}
}

// packedMark is the inverse of Config.mark; ok is false where a state cannot
// hold it.
func (c *Config) packedMark(p protocol.Mark) (m mark, ok bool) {
	m = mark{kind: p.Kind, firstDone: p.FirstDone, highest: uint8(p.HighestEpoch)}
	for _, e := range p.Entries {
		if !m.entries.add(c.entry(e)) {
			return mark{}, false
		}
	}
	return m, true
}

// add keeps the entries sorted, and reports whether there was room.
func (s *entries) add(e entry) bool {
	if slices.Contains(s[:], e) {
		return true
	}
	for i, have := range s {
		if have == (entry{}) {
			s[i] = e
			return true
		}
		if e.less(have) {
			s[i], e = e, have
		}
	}
	return false
}

func (e entry) less(o entry) bool {
	return e.epoch < o.epoch || e.epoch == o.epoch && e.content < o.content
}

func (s entries) highest() uint8 {
	var highest uint8
	for _, e := range s {
		highest = max(highest, e.epoch)
	}
	return highest
}
