package model

import "github.com/lockstep-dev/lockstep/protocol"

// hold carries out a step that leaves the objects as they are. With Config.Keep, a
// leader that holds the target repairs the changes of others, until it decides
// otherwise (docs/protocol-objects.md#drift).
func (t *transition) hold(l int, step *protocol.Step) bool {
	lead := &t.state.leaders[l]
	if !t.cfg.Keep || step.Work.Content == (protocol.Content{}) {
		return t.stop(l, step)
	}
	if lead.doing == keeping {
		return false
	}
	t.abandon(l)
	t.say("%s keeps the objects as they are (%s)", t.name(int(lead.node)), step.Rule)
	t.traceBegin(l, step)
	lead.doing, lead.pass = keeping, pass{content: t.cfg.entry(step.Work.Content)}
	return true
}

// isIdle reports whether a leader keeps the objects, and could begin a repair.
func (t *transition) isIdle(l int) bool {
	lead := &t.state.leaders[l]
	return lead.on && lead.doing == keeping && lead.pass.todo == 0 && lead.pass.request.kind == noRequest && t.maySend(l)
}

// repair begins to repair an object. The leader knows its newest version from the
// watch.
func (t *transition) repair(l, i int) bool {
	if !t.isIdle(l) || !t.differs(l, i) {
		return false
	}
	p := &t.state.leaders[l].pass
	p.todo, p.fresh = bit(i), bit(i)
	return t.sendObject(l)
}

// repairMark repairs the parent, or ends the keeping if another leader could have
// written it.
func (t *transition) repairMark(l int) bool {
	if !t.isIdle(l) {
		return false
	}
	lead, now := &t.state.leaders[l], t.state.parent
	want := t.inventory(l, finishRequest)
	switch {
	case now.exists && (!now.firstDone || now.entries != entries{lead.pass.content}):
		t.say("%s finds that another leader has written the mark", t.name(int(lead.node)))
		t.failPass(l)
		return true
	case now.exists && now.inventory == want:
		return false
	}
	lead.pass.request = request{
		kind: finishRequest, create: !now.exists && !now.blank, fresh: true,
		content: lead.pass.content, leader: lead.epoch, inventory: want,
	}
	t.noteSent(l)
	t.say("%s sends the mark again", t.name(int(lead.node)))
	return true
}
