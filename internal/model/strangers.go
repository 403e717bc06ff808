package model

import "github.com/lockstep-dev/lockstep/protocol"

// Strangers are users of the API who may write objects. The mark is not theirs to
// write. They do their worst while the status or the mark exists: without both, a
// leader can only rely on the stamps (docs/protocol.md#content-epoch).

// farEpoch is any content epoch far above all others. It is never shifted, so
// an epoch of a leader that follows from it is noticed.
const farEpoch = 120

// strange is the form of an object that a stranger created.
const strange = 254

// forge puts a content epoch on an object that no leader wrote: one that is far
// above all others, or the next one.
func (t *transition) forge(i int, far uint8) bool {
	o := &t.state.objects[i]
	if o.form == 0 || o.form == strange || o.forged || !t.state.parent.exists && t.state.status.kind != protocol.StatusPresent {
		return false
	}
	o.forged, o.stamp.epoch = true, farEpoch
	if far == 0 {
		o.stamp.epoch = t.nextEpoch()
	}
	t.touchObject(i)
	t.say("a stranger writes content epoch %d on object %d", o.stamp.epoch, i+1)
	t.drift()
	return true
}

// nextEpoch is the content epoch that the next content gets.
func (t *transition) nextEpoch() uint8 {
	next := max(t.state.status.content.epoch, t.state.parent.entries.highest())
	for _, o := range t.state.objects {
		if o.stamp.epoch != farEpoch {
			next = max(next, o.stamp.epoch)
		}
	}
	return next + 1
}

// createStranger creates an object with the set's label and a stamp, under a name
// that the inventory does not list.
func (t *transition) createStranger(i int) bool {
	o := &t.state.objects[i]
	if t.cfg.Objects[i] != droppedForm || o.form != 0 || !t.state.parent.exists || t.state.parent.inventory&bit(i) != 0 {
		return false
	}
	t.touchObject(i)
	*o = object{form: strange, stamp: entry{content: 1, epoch: 1}, forged: true}
	t.say("a stranger creates object %d, with a stamp", i+1)
	t.drift()
	return true
}

// checkStamp reads the mark after a pass read an object with a content epoch above
// its own. It reports whether that ends the pass.
func (t *transition) checkStamp(l int) (ended bool) {
	if !t.cfg.holds(stampsChecked) {
		return false
	}
	lead := &t.state.leaders[l]
	highest := t.state.parent.entries.highest()
	switch {
	case t.state.parent.exists && highest <= lead.pass.content.epoch:
		return false
	case t.state.parent.exists && lead.doing == passing:
		t.say("%s finds content epoch %d in the mark, above its own", t.name(int(lead.node)), highest)
		t.endPass(l, protocol.Outcome{HighestEpoch: int64(highest)})
	default:
		t.say("%s finds a content epoch above its own, and another mark than it has written", t.name(int(lead.node)))
		t.failPass(l)
	}
	return true
}

// sendStrip sends the request that removes a stamp.
func (t *transition) sendStrip(l, i int) bool {
	lead := &t.state.leaders[l]
	lead.pass.request = request{kind: stripRequest, object: uint8(i), fresh: true, content: lead.pass.content, leader: lead.epoch}
	t.noteSent(l)
	t.say("%s removes the stamp of object %d, which is above its own", t.name(int(lead.node)), i+1)
	return true
}

func (t *transition) serveStrip(r request) bool {
	i := int(r.object)
	was := t.state.objects[i]
	if !t.accepts(r, was.form != 0) {
		t.say("  the API refuses to change object %d", i+1)
		return false
	}
	t.event.wrote, t.event.object, t.event.objectBefore, t.event.request = true, i, was, r
	t.touchObject(i)
	t.state.objects[i] = object{form: was.form}
	t.say("  object %d has no stamp", i+1)
	return true
}

// checkOwnEpochs: no content epoch in the status or the mark follows from a stamp.
func checkOwnEpochs(t *transition) string {
	if t.state.status.content.epoch >= farEpoch || t.state.parent.entries.highest() >= farEpoch {
		return "a content epoch follows from a stamp"
	}
	return ""
}
