package model

import (
	"math/bits"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// pass makes the next step of a leader's pass over the objects.
func (t *transition) pass(l int) bool {
	lead := &t.state.leaders[l]
	if !lead.on || lead.pass.request.kind != noRequest || t.state.nodes[lead.node].unusable {
		return false
	}
	if lead.doing == keeping && lead.pass.todo != 0 {
		return t.sendObject(l)
	}
	if lead.doing != passing {
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

// list reads the parent and then all objects, and decides which to write.
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
	highest := t.highestKnown(p)
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
	t.compare(l)
	t.state.complete = t.state.complete || p.todo == 0
	if p.todo == 0 && p.removals {
		p.todo = t.removals(l)
	}
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

// highestKnown is the highest content epoch that a pass finds in the mark, or in the
// stamps that replace it.
func (t *transition) highestKnown(p *pass) (highest uint8) {
	if p.parent {
		highest = t.state.parent.entries.highest()
	}
	if t.needsStamps(p.fallback) || !t.cfg.holds(epochsFromEtcd) {
		highest = max(highest, t.highestStamp())
	}
	return highest
}

// compare notes which objects exist and which must be written.
func (t *transition) compare(l int) {
	p := &t.state.leaders[l].pass
	p.todo, p.fresh, p.found = 0, 0, 0
	for i := range t.cfg.Objects {
		p.fresh |= 1 << i
		if t.cfg.drops() && t.state.objects[i].form != 0 {
			p.found |= 1 << i
		}
		if t.cfg.form(i, p.content.content) != 0 && t.mustWrite(i, p.content) {
			p.todo |= 1 << i
		}
	}
}

// epochInUse reports whether the mark gives a content's epoch to another content.
// Without a status, only the mark keeps content epochs in order.
func (t *transition) epochInUse(content entry) bool {
	return t.cfg.holds(epochTaken) && slices.ContainsFunc(t.state.parent.entries[:], func(e entry) bool {
		return e.epoch == content.epoch && e.content != content.content && int(e.content) <= t.cfg.contents()
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
// the mark shows that another one was finished. The leader checks it after each
// read of the mark. If it missed a change, the API refuses its next write of the mark,
// and it reads again.
func (t *transition) isUnfounded(l int) bool {
	p := &t.state.leaders[l].pass
	return p.first && (t.state.parent.firstDone && t.cfg.holds(firstOnce) || t.isOtherBundle(p.content.content))
}

// isForeign reports whether the parent carries the ID of another store.
func (t *transition) isForeign() bool {
	return t.state.parent.store == otherStore && t.cfg.holds(oneStore)
}

// endForeign ends a pass that found it.
func (t *transition) endForeign(l int) bool {
	t.say("%s finds the ID of another store on the parent", t.name(int(t.state.leaders[l].node)))
	t.endPass(l, protocol.Outcome{ForeignStore: storeIDs[otherStore], HighestEpoch: int64(t.state.parent.entries.highest())})
	return true
}

// endFirstPass ends a pass that began as the first reconciliation, because the
// mark shows by now that another one was finished. The status must be rebuilt
// instead.
func (t *transition) endFirstPass(l int) bool {
	lead := &t.state.leaders[l]
	t.say("%s finds that another leader has finished the first reconciliation", t.name(int(lead.node)))
	t.tracePass(l, trace.End{Used: true, Outcome: protocol.Outcome{Unfounded: true}})
	lead.mark, lead.doing, lead.pass = mark{}, nothing, pass{}
	return true
}

// failPass ends a leader's pass or keeping because of an error of the API.
func (t *transition) failPass(l int) {
	lead := &t.state.leaders[l]
	t.tracePass(l, trace.End{Used: true, Failed: true})
	lead.due = lead.due || lead.doing == keeping // only a full pass helps
	lead.doing, lead.pass = nothing, pass{}
}

// afterList is the next stage of a pass that must write objects. The mark comes
// first, unless it names the content and the leader already.
func (t *transition) afterList(l int) stage {
	lead := &t.state.leaders[l]
	m := t.state.parent
	if !t.cfg.holds(markFirst) {
		return applying
	}
	listed := t.cfg.wanted(lead.pass.content.content)&^m.inventory == 0 || !t.cfg.holds(inventoryFirst)
	if lead.pass.parent && m.exists && listed && m.leader == lead.epoch && m.entries.has(lead.pass.content) {
		return applying
	}
	return beginning
}

func (s entries) has(e entry) bool {
	return slices.Contains(s[:], e)
}

// mustWrite reports whether an object must be written, since its form or its stamp is wrong.
func (t *transition) mustWrite(i int, content entry) bool {
	o := t.state.objects[i]
	if o.form != t.cfg.form(i, content.content) || o.stamp.epoch == 0 || o.stamp.epoch > content.epoch && t.cfg.holds(preconditions) {
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
// can land. Either its predecessors were drained, or it waited.
func (t *transition) formerEnded(l int) bool {
	return t.state.leaders[l].predecessors == protocol.Drained || t.othersEnded(l)
}

// needsStamps reports whether only the stamps show the contents in the API.
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
// can land any more. Requests of the content except do not count.
func (t *transition) ownEnded(l int, except entry) bool {
	for _, r := range t.state.orphans {
		if r.kind != noRequest && r.leader == t.state.leaders[l].epoch && r.content != except {
			return false
		}
	}
	return true
}

// maySend reports whether a leader's clock allows it to send requests. The leader
// stops before its lease ends. A leader that was never confirmed may be without a
// lease.
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
		kind: kind, create: !t.state.parent.exists && !t.state.parent.blank && p.parent, fresh: p.parent,
		content: p.content, leader: lead.epoch,
	}
	if p.request.create && t.cfg.holds(blankFirst) {
		t.noteSent(l)
		t.say("%s sends a parent without a mark", t.name(int(lead.node)))
		return true
	}
	p.request.inventory = t.inventory(l, kind)
	if !t.state.parent.exists && p.parent && kind == beginRequest {
		p.request.rebuilds = true
		known := t.knownMark(l, p.fallback)
		p.request.entries = known.entries
		p.request.firstDone = known.firstDone || !p.first && t.cfg.holds(statusIsDone)
	}
	t.noteSent(l)
	if kind == beginRequest {
		t.say("%s sends the mark with an entry for its content", t.name(int(lead.node)))
	} else {
		t.say("%s sends the mark with its content alone and firstDone", t.name(int(lead.node)))
	}
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
	wanted := t.cfg.form(i, p.content.content)
	deletes := wanted == 0 || t.cfg.Objects[i] == recreatedForm && o.form != 0 && o.form != wanted && fresh
	if fresh && o.stamp.epoch > p.content.epoch && t.cfg.holds(preconditions) {
		if ended := t.checkStamp(l); ended || !deletes {
			return ended || t.sendStrip(l, i)
		}
	}
	if deletes {
		return t.sendDelete(l, i)
	}
	p.request = request{
		kind: objectRequest, object: uint8(i), create: o.form == 0 && fresh, fresh: fresh, content: p.content,
		leader: lead.epoch,
	}
	t.noteSent(l)
	t.say("%s sends object %d in the form of %s", t.name(int(lead.node)), i+1, t.contentText(p.content.content))
	return true
}

// noteSent records whether a leader works towards another content than the
// status.
func (t *transition) noteSent(l int) {
	lead := &t.state.leaders[l]
	t.event.sent = true
	if !lead.pass.request.kind.ofMark() {
		t.noteOwner(lead.pass.content.content)
	}
	t.event.sentFight = lead.key && t.state.status.kind == protocol.StatusPresent && t.state.status.content != lead.pass.content
}

// finish removes all other contents from the mark, unless that is done already.
func (t *transition) finish(l int) bool {
	p := &t.state.leaders[l].pass
	m := t.state.parent
	alone := p.parent && m.exists && m.firstDone && m.entries == (entries{p.content})
	if alone && t.isNamed(m, p.content.content) && m.inventory == t.inventory(l, finishRequest) {
		t.say("%s finds the mark up to date: its pass is complete", t.name(int(t.state.leaders[l].node)))
		t.endPass(l, t.completeOutcome(l))
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
		lead.finished, lead.owed, lead.due = content, uint8(out.Owed), false
		if t.cfg.drops() {
			lead.inventory = t.state.parent.inventory
		}
	}
	lead.doing, lead.pass = nothing, pass{}
}
