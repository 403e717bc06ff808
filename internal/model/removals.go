package model

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// drops reports whether a release drops an object.
func (c *Config) drops() bool {
	return slices.Contains(c.Objects, droppedForm) || slices.Contains(c.Objects, addedForm)
}

// removable reports whether a leader may remove an object that its bundle does not
// contain.
func (t *transition) removable(l, i int) bool {
	o := t.state.objects[i]
	if o.form == 0 || !t.cfg.holds(inventoryOnly) {
		return o.form != 0
	}
	return o.form != strange && t.state.leaders[l].pass.parent && t.state.parent.inventory&bit(i) != 0
}

// removals are the objects that a leader may remove, one bit each.
func (t *transition) removals(l int) (bits uint8) {
	for i := range t.cfg.Objects {
		if t.cfg.form(i, t.state.leaders[l].pass.content.content) == 0 && t.removable(l, i) {
			bits |= bit(i)
		}
	}
	if t.cfg.Immediately && !t.cfg.holds(removalsFirst) {
		return 0
	}
	return bits
}

// completeOutcome is the outcome of a pass that is complete.
func (t *transition) completeOutcome(l int) protocol.Outcome {
	p := &t.state.leaders[l].pass
	out := protocol.Outcome{Complete: true, HighestEpoch: int64(p.content.epoch)}
	if !p.removals {
		out.Owed = bits.OnesCount8(t.removals(l))
	}
	return out
}

// inventory is the inventory that a leader writes with the mark. At the end of
// a pass it drops the objects that its last list did not find.
func (t *transition) inventory(l int, kind requestKind) uint8 {
	lead := &t.state.leaders[l]
	wanted := t.cfg.wanted(lead.pass.content.content)
	switch {
	case lead.doing == keeping:
		return wanted | lead.inventory
	case kind == finishRequest:
		return wanted | t.state.parent.inventory&lead.pass.found
	case !t.cfg.holds(inventoryFirst):
		return t.state.parent.inventory
	}
	return t.state.parent.inventory | wanted
}

// sendDelete sends the deletion of an object that the bundle dropped, or that cannot
// be changed.
func (t *transition) sendDelete(l, i int) bool {
	lead := &t.state.leaders[l]
	p := &lead.pass
	p.request = request{kind: deleteRequest, object: uint8(i), fresh: p.fresh&bit(i) != 0, content: p.content, leader: lead.epoch}
	t.noteSent(l)
	t.say("%s deletes object %d", t.name(int(lead.node)), i+1)
	return true
}

func (t *transition) serveDelete(r request) bool {
	i := int(r.object)
	was := t.state.objects[i]
	if was.form == 0 || !r.fresh && t.cfg.holds(deletePreconditions) {
		t.say("  the API refuses to delete object %d", i+1)
		return false
	}
	t.event.wrote, t.event.object, t.event.objectBefore, t.event.request = true, i, was, r
	t.touchObject(i)
	t.state.objects[i] = object{}
	t.say("  object %d does not exist any more", i+1)
	return true
}

// mustBeGone reports whether an object that the bundle dropped may not exist when
// the status becomes DONE.
func (t *transition) mustBeGone(i int) bool {
	return t.cfg.Immediately && !t.state.unlisted && t.state.objects[i].form != strange
}

// checkListed: each object that leaders wrote is in the inventory, unless an
// inventory was lost, and leaders remove no other object.
func checkListed(t *transition) string {
	if !t.cfg.drops() {
		return ""
	}
	if e := &t.event; e.wrote && e.request.kind == deleteRequest && e.objectBefore.form == strange {
		return fmt.Sprintf("a leader removed object %d, which a stranger had created", e.object+1)
	}
	if !t.state.parent.exists || t.state.unlisted {
		return ""
	}
	for i := range t.cfg.Objects {
		if o := t.state.objects[i]; o.form != 0 && o.form != strange && t.state.parent.inventory&bit(i) == 0 {
			return fmt.Sprintf("object %d, which a leader wrote, is not in the inventory", i+1)
		}
	}
	return ""
}
