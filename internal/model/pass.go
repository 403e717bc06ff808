package model

import (
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// survey reads the mark, or what the stamps tell of it (reconcile.Survey).
func (t *transition) survey(fallback entry) mark {
	m := t.knownMark(fallback)
	if m.kind == protocol.MarkAbsent {
		m.highest = t.highestStamp()
		return m
	}
	m.highest = max(t.highestStamp(), m.entries.highest())
	return m
}

// known is the mark of the parent. Where there is none, it is what the status
// covers, and without a status what the stamps tell: of each release the newest
// content (reconcile.madeAnew).
func (t *transition) knownMark(fallback entry) mark {
	p := t.state.parent
	if p.exists {
		return mark{kind: protocol.MarkPresent, firstDone: p.firstDone, entries: p.entries}
	}
	if fallback.content != 0 && t.cfg.holds(statusServes) {
		return mark{kind: protocol.MarkPresent, firstDone: true, entries: entries{fallback}}
	}
	out := mark{kind: protocol.MarkAbsent}
	for r := 1; r <= t.cfg.Releases; r++ {
		e := entry{content: uint8(t.cfg.contents() + r)}
		for _, o := range t.state.objects {
			if o.form != 0 && t.cfg.releaseOf(o.stamp.content) == r {
				e.epoch = max(e.epoch, o.stamp.epoch)
			}
		}
		if e.epoch == 0 {
			continue
		}
		out.kind, out.firstDone = protocol.MarkPresent, true
		if !out.entries.add(e) {
			t.event.noRoom = true
		}
	}
	return out
}

func (t *transition) highestStamp() uint8 {
	var highest uint8
	for _, o := range t.state.objects {
		highest = max(highest, o.stamp.epoch)
	}
	return highest
}

// pass does the next thing of a leader's pass over the objects
// (reconcile.pass.run).
func (t *transition) pass(l int) bool {
	lead := &t.state.leaders[l]
	if !lead.on || lead.doing != passing || lead.pass.request.kind != noRequest {
		return false
	}
	switch lead.pass.at {
	case starting, relisting:
		return t.list(l)
	case beginning:
		return t.sendMark(l, beginRequest)
	case applying:
		return t.sendObject(l)
	case finishing:
		return t.finish(l)
	}
	return false
}

// list reads all objects, and first of all the parent. It decides what has to
// be written.
func (t *transition) list(l int) bool {
	p := &t.state.leaders[l].pass
	if p.at == starting {
		p.parent = true
		if p.first && t.state.parent.firstDone && t.cfg.holds(firstOnce) {
			return t.endFirstPass(l)
		}
	}
	highest := t.highestStamp()
	if p.parent {
		highest = max(highest, t.state.parent.entries.highest())
	}
	name := t.name(int(t.state.leaders[l].node))
	if t.epochInUse(p.content) {
		return t.chooseHigherEpoch(l)
	}
	if highest > p.content.epoch && t.cfg.holds(preconditions) {
		t.say("%s finds content epoch %d in the API, above its own", name, highest)
		t.endPass(l, protocol.Outcome{HighestEpoch: int64(highest)})
		return true
	}
	completed := t.state.complete
	p.todo, p.fresh = 0, 0
	for i := range t.cfg.Objects {
		p.fresh |= 1 << i
		if t.mustWrite(i, p.content) {
			p.todo |= 1 << i
		}
	}
	t.state.complete = t.state.complete || p.todo == 0
	switch {
	case p.todo == 0 && t.listIsFinal(l):
		t.say("%s lists the objects and finds all in place", name)
		p.at = finishing
	case p.todo == 0:
		return completed != t.state.complete // it waits until requests of others can no longer land
	case t.needsStamps(p.fallback) && !t.stampsServe(l):
		return completed != t.state.complete
	default:
		t.say("%s lists the objects and finds %d to be written", name, ones(p.todo))
		p.at = t.afterList(l)
	}
	return true
}

// taken reports whether the mark gives a content's epoch to another one. Where
// there is no status, nothing but the mark sets epochs in order.
func (t *transition) epochInUse(content entry) bool {
	return t.cfg.holds(epochTaken) && slices.ContainsFunc(t.state.parent.entries[:], func(e entry) bool {
		return e.epoch == content.epoch && e.content != content.content
	})
}

// retake ends a pass so that its leader chooses a higher content epoch.
func (t *transition) chooseHigherEpoch(l int) bool {
	lead := &t.state.leaders[l]
	t.say("%s finds that other content has its content epoch", t.name(int(lead.node)))
	t.endPass(l, protocol.Outcome{HighestEpoch: int64(lead.pass.content.epoch) + 1})
	return true
}

// notFirst ends a pass that was begun as the first reconciliation, where the mark
// says by now that there was one: the status has to be rebuilt instead.
func (t *transition) endFirstPass(l int) bool {
	lead := &t.state.leaders[l]
	t.say("%s finds that the first reconciliation was finished by another", t.name(int(lead.node)))
	lead.mark, lead.doing, lead.pass = mark{}, nothing, pass{}
	return true
}

// afterList is where a pass goes that has something to write: the mark first, if
// it does not name the content and the leader yet.
func (t *transition) afterList(l int) stage {
	lead := &t.state.leaders[l]
	m := t.state.parent
	if !t.cfg.holds(markFirst) {
		return applying
	}
	if lead.pass.parent && m.exists && m.leader == lead.epoch && m.entries.has(lead.pass.content) {
		return applying
	}
	return beginning
}

func (s entries) has(e entry) bool {
	for _, have := range s {
		if have == e {
			return true
		}
	}
	return false
}

func ones(mask uint8) int {
	n := 0
	for ; mask != 0; mask &= mask - 1 {
		n++
	}
	return n
}

// needed reports whether an object is not as the content wants it
// (reconcile.decide).
func (t *transition) mustWrite(i int, content entry) bool {
	o := t.state.objects[i]
	if o.form != t.cfg.form(i, content.content) {
		return true
	}
	return t.cfg.Restamp && slices.ContainsFunc(t.state.parent.entries[:], func(e entry) bool {
		return e != content && e.epoch > o.stamp.epoch
	})
}

// drained reports whether a list may be the last one of a pass.
func (t *transition) listIsFinal(l int) bool {
	lead := &t.state.leaders[l]
	if !lead.pass.wait || !t.cfg.holds(drainWait) {
		return true
	}
	return t.formerEnded(l) && t.ownEnded(l, lead.pass.content)
}

// waited reports whether requests of former leaders have ended, as far as a
// leader knows: it does not wait for what the past says is not there
// (election.leadership.quiet).
func (t *transition) formerEnded(l int) bool {
	return t.state.leaders[l].predecessors == protocol.Drained || t.othersEnded(l)
}

// needsStamps reports whether nothing but the stamps tells what is there
// (reconcile.needsStamps).
func (t *transition) needsStamps(fallback entry) bool {
	return !t.state.parent.exists && (fallback.content == 0 || !t.cfg.holds(statusServes)) && t.highestStamp() > 0
}

// stampsServe reports whether they may serve for the mark now.
func (t *transition) stampsServe(l int) bool { return !t.cfg.holds(drainSurvey) || t.formerEnded(l) }

// othersEnded reports whether no request of anybody else can land any more.
func (t *transition) othersEnded(l int) bool {
	own := t.state.leaders[l].epoch
	for _, r := range t.state.orphans {
		if r.kind != noRequest && r.leader != own {
			return false
		}
	}
	for i := range t.state.leaders {
		if i != l && t.state.leaders[i].pass.request.kind != noRequest {
			return false
		}
	}
	return true
}

// ownEnded reports whether no request of a leader can land any more that it no
// longer waits for, but for those of one content.
func (t *transition) ownEnded(l int, except entry) bool {
	for _, r := range t.state.orphans {
		if r.kind != noRequest && r.leader == t.state.leaders[l].epoch && r.content != except {
			return false
		}
	}
	return true
}

// maySend reports whether a leader's clock lets it send requests. It is
// reckoned so that it ends before the lease does; a leader that was never
// confirmed may have no lease at all.
func (t *transition) maySend(l int) bool {
	return t.state.leaders[l].key || t.cfg.LooseClock || !t.cfg.holds(confirmed)
}

// sendMark sends the request that makes the mark name the content.
func (t *transition) sendMark(l int, kind requestKind) bool {
	if !t.maySend(l) {
		return false
	}
	lead := &t.state.leaders[l]
	p := &lead.pass
	if t.epochInUse(p.content) {
		return t.chooseHigherEpoch(l)
	}
	p.request = request{
		kind: kind, create: !t.state.parent.exists && p.parent, fresh: p.parent, content: p.content, leader: lead.epoch,
	}
	if p.request.create && kind == beginRequest {
		known := t.knownMark(p.fallback)
		p.request.entries = known.entries
		p.request.firstDone = known.firstDone || !p.first && t.cfg.holds(statusIsDone)
	}
	t.noteSent(l)
	t.say("%s sends: the mark, %s", t.name(int(lead.node)), map[requestKind]string{
		beginRequest: "with an entry for its content", finishRequest: "with its content alone, and firstDone",
	}[kind])
	return true
}

// sendObject sends the next object.
func (t *transition) sendObject(l int) bool {
	if !t.maySend(l) {
		return false
	}
	lead := &t.state.leaders[l]
	p := &lead.pass
	i := 0
	for p.todo&(1<<i) == 0 {
		i++
	}
	o := t.state.objects[i]
	fresh := p.fresh&(1<<i) != 0
	p.request = request{
		kind: objectRequest, object: uint8(i), create: o.form == 0 && fresh, fresh: fresh, content: p.content, stamp: p.content,
		leader: lead.epoch,
	}
	t.noteSent(l)
	t.say("%s sends: object %d as %s has it", t.name(int(lead.node)), i+1, t.contentText(p.content.content))
	return true
}

// sent notes whether a leader works towards something else than the status
// tells.
func (t *transition) noteSent(l int) {
	lead := &t.state.leaders[l]
	t.event.sent = true
	t.event.sentFight = lead.key && t.state.status.kind == protocol.StatusPresent && t.state.status.content != lead.pass.content
}

// finish makes the mark name the content alone, unless it does already.
func (t *transition) finish(l int) bool {
	p := &t.state.leaders[l].pass
	m := t.state.parent
	if p.parent && m.exists && m.firstDone && m.entries == (entries{p.content}) {
		t.say("%s finds the mark as it should be: its pass is complete", t.name(int(t.state.leaders[l].node)))
		t.endPass(l, protocol.Outcome{Complete: true, HighestEpoch: int64(p.content.epoch)})
		return true
	}
	return t.sendMark(l, finishRequest)
}

// passed ends a pass with its outcome.
func (t *transition) endPass(l int, out protocol.Outcome) {
	lead := &t.state.leaders[l]
	content := lead.pass.content
	m, ok := t.cfg.packedMark(t.cfg.mark(lead.mark).After(t.cfg.content(content), out))
	if !ok {
		t.event.noRoom = true
	}
	lead.mark = m
	if out.Complete {
		lead.finished, lead.due = content, false
	}
	lead.doing, lead.pass = nothing, pass{}
}
