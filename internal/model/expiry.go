package model

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// There is no time here. That clocks agree well enough is one condition, in
// outwait: a leader has waited for as long as a record says only once the
// sidecar of that record has waited for half of it, since it last confirmed its
// presence.

// promise is what every record says about when it may be passed over; how long
// that is makes no difference.
func (c *Config) promise() time.Duration {
	if c.Expire {
		return time.Second
	}
	return 0
}

// place is the bit of a leader's place.
func place(l int) uint8 { return 1 << l }

// seenBy is the fleet with what a leader has counted.
func (c *Config) seenBy(w *World, l int) protocol.Fleet {
	f := c.fleet(w)
	k := 0
	for i := range c.Nodes {
		n := &w.nodes[i]
		if n.record == 0 {
			continue
		}
		if !n.alive && n.expired&place(l) != 0 {
			f.Records[k].Gone = c.promise()
		}
		k++
	}
	return f
}

// passedOver is the fleet at the moment at which a leader commits: who has
// expired does not count though its presence may be there again, as long as
// its record was not written.
func (c *Config) passedOver(w *World, l int) protocol.Fleet {
	then := *w
	for i := range c.Nodes {
		if then.nodes[i].expired&place(l) != 0 {
			then.nodes[i].alive = false
		}
	}
	return c.seenBy(&then, l)
}

// counts is the part of a leader's look that has to do with absences
// (election.absences). It reports whether anything changed.
func (t *turn) counts(l int) (changed bool) {
	if !t.cfg.Expire {
		return false
	}
	for i := range t.cfg.Nodes {
		n := &t.w.nodes[i]
		was := *n
		switch {
		case n.alive:
			n.counting, n.confirmed, n.expired = n.counting&^place(l), n.confirmed&^place(l), n.expired&^place(l)
		case n.record != 0 && !t.cfg.holds(Announced):
			n.counting |= place(l)
		}
		changed = changed || *n != was
	}
	return changed
}

// forget drops what a leader has counted that leads no more: another one counts
// anew.
func (t *turn) forget(l int) {
	drop := func(bits *uint8) {
		if l == 0 {
			*bits >>= 1 // as World.leaders does
		} else {
			*bits &= 1
		}
	}
	for i := range t.cfg.Nodes {
		n := &t.w.nodes[i]
		drop(&n.counting)
		drop(&n.confirmed)
		drop(&n.expired)
	}
}

// outwait lets a leader have waited for as long as a record says.
func (t *turn) outwait(i, l int) bool {
	n, lead := &t.w.nodes[i], &t.w.leaders[l]
	if !lead.on || n.alive || n.record == 0 || n.record == corrupt || n.expired&place(l) != 0 {
		return false
	}
	if !t.cfg.holds(Announced) && n.counting&place(l) == 0 {
		return false
	}
	closed := n.run == 0 || !n.registered || n.fenced
	if !closed && t.cfg.holds(SelfFencing) && n.confirmed&place(l) == 0 {
		return false
	}
	n.expired |= place(l)
	t.say("as far as %s can tell, %s has been gone for as long as its record says", t.name(int(lead.node)), t.name(i))
	return true
}

// fence closes the gate of a node that could not confirm its presence.
func (t *turn) fence(i int) bool {
	n := &t.w.nodes[i]
	if n.run == 0 || n.alive || n.fenced || !n.registered {
		return false
	}
	n.fenced, n.ready, n.late = true, false, false
	if t.cfg.holds(FencedRegisters) {
		n.registered = false
	}
	t.say("%s has not confirmed its presence for half of what its record says, and closes its gate", t.name(i))
	return true
}

// announce is what a sidecar does once its presence is there again: it writes
// its record, and only that confirms the presence.
func (t *turn) announce(i int) {
	n := &t.w.nodes[i]
	if !t.cfg.Expire || !n.registered || n.record != n.run {
		return
	}
	n.fenced = false
	if t.cfg.holds(Announced) {
		t.say("  and writes its record")
		t.putRecord(i, n.run)
		return
	}
	n.confirmed |= n.counting
}
