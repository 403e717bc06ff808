package model

import (
	"math/bits"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// survey reads the mark, or builds one from the status or the stamps
// (Reconciler.Survey).
func (t *transition) survey(fallback entry) mark {
	m := t.knownMark(fallback)
	if m.kind == protocol.MarkAbsent {
		m.highest = t.highestStamp()
		return m
	}
	m.highest = max(t.highestStamp(), m.entries.highest())
	return m
}

// knownMark is the mark of the parent. If the parent is missing, it is what the
// status covers. Without a status too, it is what the stamps show: the newest
// content of each release.
func (t *transition) knownMark(fallback entry) mark {
	p := t.state.parent
	if p.exists {
		return mark{kind: protocol.MarkPresent, firstDone: p.firstDone, store: p.store, entries: p.entries}
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

// pass makes the next step of a leader's pass over the objects.
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

// list reads the parent and then all objects, and decides what to write.
func (t *transition) list(l int) bool {
	p := &t.state.leaders[l].pass
	if p.at == starting {
		p.parent = true
		if t.isForeign() {
			return t.endForeign(l)
		}
		if t.isUnfounded(l) {
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
		t.say("%s lists the objects and has to write %s", name, plural(bits.OnesCount8(p.todo), "object"))
		p.at = t.afterList(l)
	}
	return true
}

// epochInUse reports whether the mark gives a content's epoch to another content.
// Without a status, only the mark keeps content epochs in order.
func (t *transition) epochInUse(content entry) bool {
	return t.cfg.holds(epochTaken) && slices.ContainsFunc(t.state.parent.entries[:], func(e entry) bool {
		return e.epoch == content.epoch && e.content != content.content
	})
}

// chooseHigherEpoch ends a pass so that its leader chooses a higher content
// epoch.
func (t *transition) chooseHigherEpoch(l int) bool {
	lead := &t.state.leaders[l]
	t.say("%s finds that other content has the same content epoch", t.name(int(lead.node)))
	t.endPass(l, protocol.Outcome{HighestEpoch: int64(lead.pass.content.epoch) + 1})
	return true
}

// isUnfounded reports whether a pass began as the first reconciliation although
// the mark shows that another one was finished. The leader checks it whenever it
// has read the mark. If it has missed a change, its next write of the mark is
// refused, and it reads again.
func (t *transition) isUnfounded(l int) bool {
	return t.state.leaders[l].pass.first && t.state.parent.firstDone && t.cfg.holds(firstOnce)
}

// isForeign reports whether the parent has the ID of another store.
func (t *transition) isForeign() bool {
	return t.state.parent.store == otherStore && t.cfg.holds(oneStore)
}

// endForeign ends a pass that has found that.
func (t *transition) endForeign(l int) bool {
	t.say("%s finds the ID of another store on the parent", t.name(int(t.state.leaders[l].node)))
	t.endPass(l, protocol.Outcome{ForeignStore: storeIDs[otherStore], HighestEpoch: int64(t.state.parent.entries.highest())})
	return true
}

// endFirstPass ends a pass that began as the first reconciliation, because the
// mark shows by now that another one was finished. The status has to be rebuilt
// instead.
func (t *transition) endFirstPass(l int) bool {
	lead := &t.state.leaders[l]
	t.say("%s finds that another leader has finished the first reconciliation", t.name(int(lead.node)))
	t.tracePass(l, trace.End{Used: true, Outcome: protocol.Outcome{Unfounded: true}})
	lead.mark, lead.doing, lead.pass = mark{}, nothing, pass{}
	return true
}

// afterList is the next stage of a pass that has objects to write. The mark comes
// first, unless it names the content and the leader already.
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
	return slices.Contains(s[:], e)
}

// mustWrite reports whether an object differs from what the content requires.
func (t *transition) mustWrite(i int, content entry) bool {
	o := t.state.objects[i]
	if o.form != t.cfg.form(i, content.content) {
		return true
	}
	return t.cfg.Restamp && slices.ContainsFunc(t.state.parent.entries[:], func(e entry) bool {
		return e != content && e.epoch > o.stamp.epoch
	})
}

// listIsFinal reports whether a list may be the last one of a pass: nothing can
// land after it.
func (t *transition) listIsFinal(l int) bool {
	lead := &t.state.leaders[l]
	if !lead.pass.wait || !t.cfg.holds(drainWait) {
		return true
	}
	return t.formerEnded(l) && t.ownEnded(l, lead.pass.content)
}

// formerEnded reports whether a leader knows that no request of a former leader
// can land. Either its predecessors were drained, or it has waited.
func (t *transition) formerEnded(l int) bool {
	return t.state.leaders[l].predecessors == protocol.Drained || t.othersEnded(l)
}

// needsStamps reports whether only the stamps show what the API contains.
func (t *transition) needsStamps(fallback entry) bool {
	return !t.state.parent.exists && (fallback.content == 0 || !t.cfg.holds(statusServes)) && t.highestStamp() > 0
}

// stampsServe reports whether the stamps may replace the mark now.
func (t *transition) stampsServe(l int) bool { return !t.cfg.holds(drainSurvey) || t.formerEnded(l) }

// othersEnded reports whether no request of another leader can land any more.
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

// ownEnded reports whether none of the requests that a leader no longer waits for
// can land any more. Those of the content except do not count.
func (t *transition) ownEnded(l int, except entry) bool {
	for _, r := range t.state.orphans {
		if r.kind != noRequest && r.leader == t.state.leaders[l].epoch && r.content != except {
			return false
		}
	}
	return true
}

// maySend reports whether a leader's clock allows it to send requests. The leader
// stops before its lease ends. A leader that was never confirmed may have no
// lease at all.
func (t *transition) maySend(l int) bool {
	return t.state.leaders[l].key || t.cfg.LooseClock || !t.cfg.holds(confirmed)
}

// sendMark sends the request that adds the content to the mark, or removes all
// others.
func (t *transition) sendMark(l int, kind requestKind) bool {
	if !t.maySend(l) {
		return false
	}
	lead := &t.state.leaders[l]
	p := &lead.pass
	if p.parent && t.isForeign() {
		return t.endForeign(l)
	}
	if kind == beginRequest && t.isUnfounded(l) {
		return t.endFirstPass(l)
	}
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
	t.say("%s sends the mark %s", t.name(int(lead.node)), map[requestKind]string{
		beginRequest: "with an entry for its content", finishRequest: "with its content alone and firstDone",
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
		kind: objectRequest, object: uint8(i), create: o.form == 0 && fresh, fresh: fresh, content: p.content,
		leader: lead.epoch,
	}
	t.noteSent(l)
	t.say("%s sends object %d in the form of %s", t.name(int(lead.node)), i+1, t.contentText(p.content.content))
	return true
}

// noteSent records whether a leader works towards other content than that of the
// status.
func (t *transition) noteSent(l int) {
	lead := &t.state.leaders[l]
	t.event.sent = true
	t.event.sentFight = lead.key && t.state.status.kind == protocol.StatusPresent && t.state.status.content != lead.pass.content
}

// finish removes all other contents from the mark, unless that has been done.
func (t *transition) finish(l int) bool {
	p := &t.state.leaders[l].pass
	m := t.state.parent
	if p.parent && m.exists && m.firstDone && m.entries == (entries{p.content}) {
		t.say("%s finds the mark up to date: its pass is complete", t.name(int(t.state.leaders[l].node)))
		t.endPass(l, protocol.Outcome{Complete: true, HighestEpoch: int64(p.content.epoch)})
		return true
	}
	return t.sendMark(l, finishRequest)
}

// endPass ends a pass with its outcome.
func (t *transition) endPass(l int, out protocol.Outcome) {
	lead := &t.state.leaders[l]
	content := lead.pass.content
	t.tracePass(l, trace.End{Used: true, Outcome: out})
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
