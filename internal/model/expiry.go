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
func (c *Config) fenceAfter() time.Duration {
	if c.Expire {
		return time.Second
	}
	return 0
}

// place is the bit of a leader's place.
func bit(l int) uint8 { return 1 << l }

// seenBy is the fleet with what a leader has counted.
func (c *Config) fleetSeenBy(st *state, l int) protocol.Fleet {
	f := c.fleet(st)
	k := 0
	for i := range c.Nodes {
		n := &st.nodes[i]
		if n.record == 0 {
			continue
		}
		if !n.alive && n.expired&bit(l) != 0 {
			f.Records[k].Gone = c.fenceAfter()
		}
		k++
	}
	return f
}

// passedOver is the fleet at the moment at which a leader commits: who has
// expired does not count though its presence may be there again, as long as
// its record was not written.
func (c *Config) fleetAtCommit(st *state, l int) protocol.Fleet {
	then := *st
	for i := range c.Nodes {
		if then.nodes[i].expired&bit(l) != 0 {
			then.nodes[i].alive = false
		}
	}
	return c.fleetSeenBy(&then, l)
}

// counts is the part of a leader's look that has to do with absences
// (election.absences). It reports whether anything changed.
func (t *transition) countAbsences(l int) (changed bool) {
	if !t.cfg.Expire {
		return false
	}
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		was := *n
		switch {
		case n.alive:
			n.absent, n.confirmed, n.expired = n.absent&^bit(l), n.confirmed&^bit(l), n.expired&^bit(l)
		case n.record != 0 && !t.cfg.holds(announced):
			n.absent |= bit(l)
		}
		changed = changed || *n != was
	}
	return changed
}

// forget drops what a leader has counted that leads no more: another one counts
// anew.
func (t *transition) dropCounts(l int) {
	drop := func(bits *uint8) {
		if l == 0 {
			*bits >>= 1 // as state.leaders does
		} else {
			*bits &= 1
		}
	}
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		drop(&n.absent)
		drop(&n.confirmed)
		drop(&n.expired)
	}
}

// outwait lets a leader have waited for as long as a record says.
func (t *transition) expireRecord(i, l int) bool {
	n, lead := &t.state.nodes[i], &t.state.leaders[l]
	if !lead.on || n.alive || n.record == 0 || n.record == corrupt || n.expired&bit(l) != 0 {
		return false
	}
	if !t.cfg.holds(announced) && n.absent&bit(l) == 0 {
		return false
	}
	closed := n.run == 0 || !n.registered || n.fenced
	if !closed && t.cfg.holds(selfFencing) && n.confirmed&bit(l) == 0 {
		return false
	}
	n.expired |= bit(l)
	t.say("as far as %s can tell, %s has been gone for as long as its record says", t.name(int(lead.node)), t.name(i))
	return true
}

// fence closes the gate of a node that could not confirm its presence.
func (t *transition) fence(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.alive || n.fenced || !n.registered {
		return false
	}
	n.fenced, n.ready, n.staleRead = true, false, false
	if t.cfg.holds(fencedRegisters) {
		n.registered = false
	}
	t.say("%s has not confirmed its presence for half of what its record says, and closes its gate", t.name(i))
	return true
}

// announce is what a sidecar does once its presence is there again: it writes
// its record, and only that confirms the presence.
func (t *transition) announce(i int) {
	n := &t.state.nodes[i]
	if !t.cfg.Expire || !n.registered || n.record != n.run {
		return
	}
	n.fenced = false
	if t.cfg.holds(announced) {
		t.say("  and writes its record")
		t.putRecord(i, n.run)
		return
	}
	n.confirmed |= n.absent
}
