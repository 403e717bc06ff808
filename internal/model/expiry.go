package model

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// The model has no time. That clocks agree well enough is one condition in
// expireRecord. A leader waits for the whole expiry time of a record, and the
// sidecar of that record closes its gate after half of it. So the leader's wait
// ends only after the gate is closed.

// expireAfter is the expiry time in every record. How long it is makes no
// difference.
func (c *Config) expireAfter() time.Duration {
	if c.Expire {
		return time.Second
	}
	return 0
}

// bit is the bit of a place in state.leaders.
func bit(l int) uint8 { return 1 << l }

// fleetSeenBy is the fleet with the absences that a leader counted.
func (c *Config) fleetSeenBy(st *state, l int) protocol.Fleet {
	f := c.fleet(st)
	k := 0
	for i := range c.Nodes {
		n := &st.nodes[i]
		if n.record == 0 {
			continue
		}
		if !n.alive && n.expired&bit(l) != 0 {
			f.Records[k].Gone = c.expireAfter()
		}
		k++
	}
	return f
}

// fleetAtCommit is the fleet when a leader commits. An expired record
// counts as expired until it is written, even if its presence is back.
func (c *Config) fleetAtCommit(st *state, l int) protocol.Fleet {
	then := *st
	for i := range c.Nodes {
		if then.nodes[i].expired&bit(l) != 0 {
			then.nodes[i].alive = false
		}
	}
	return c.fleetSeenBy(&then, l)
}

// countAbsences is the part of a leader's round that counts absences. It reports
// whether anything changed.
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

// dropCounts drops the counts of a leader whose leadership ended: the next
// leader counts from the start.
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
		drop(&n.chosen)
	}
}

// expireRecord ends the wait of a leader for the expiry time of a record.
func (t *transition) expireRecord(i, l int) bool {
	n, lead := &t.state.nodes[i], &t.state.leaders[l]
	if !lead.on || n.alive || n.record == 0 || n.record == corrupt || n.expired&bit(l) != 0 {
		return false
	}
	if !t.cfg.holds(announced) && n.absent&bit(l) == 0 {
		return false
	}
	closed := n.run == 0 || !n.registered || n.overdue
	if !closed && t.cfg.holds(selfFencing) && n.confirmed&bit(l) == 0 {
		return false
	}
	n.expired |= bit(l)
	t.say("for %s, the record of %s has expired", t.name(int(lead.node)), t.name(i))
	return true
}

// closeOverdue closes the gate of a node that could not confirm its presence.
func (t *transition) closeOverdue(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.alive || n.overdue || !n.registered {
		return false
	}
	n.overdue, n.ready, n.staleRead = true, false, false
	if t.cfg.holds(overdueRegisters) {
		n.registered = false
	}
	t.say("%s cannot confirm its presence for half of its expiry time, and closes its gate", t.name(i))
	return true
}

// announce writes the record of a sidecar whose presence exists again. Only that
// confirms the presence.
func (t *transition) announce(i int) {
	n := &t.state.nodes[i]
	if !t.cfg.Expire || !n.registered || n.record != n.run || n.roleless != n.plain {
		return
	}
	n.overdue = false
	if t.cfg.holds(announced) {
		t.say("  and writes its record")
		t.putRecord(i, n.run)
		return
	}
	n.confirmed |= n.absent
}
