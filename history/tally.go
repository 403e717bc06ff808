package history

import (
	"maps"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// begins returns the nodes whose records have another release than before.
func (l *Ledger) begins(now Facts) map[protocol.NodeID]bool {
	out := map[protocol.NodeID]bool{}
	for before, r := range changedRecords(l.facts.Fleet, now.Fleet) {
		if before != nil && r != nil && before.Node.Version.Release != r.Node.Version.Release {
			out[r.ID] = true
		}
	}
	return out
}

// tally counts, during an upgrade, how long each node is out of service, and how long the leader waits for each.
// A node registers with another release while it is out of service: its outage began before the upgrade that it begins.
func (l *Ledger) tally(at time.Time, now Facts, begins map[protocol.NodeID]bool) {
	entry := l.last(func(h *Held) bool { return h.Open() && ofRelease(h.Entry) })
	out, waits := make(map[protocol.NodeID]bool, len(l.outs)), map[protocol.NodeID]bool{}
	for _, r := range l.census.notable {
		if outOfService(r) {
			out[r.ID] = true
		}
	}
	if _, one := l.census.release(); entry != nil && entry.rolledOut() && !one {
		l.rollsAgain(entry)
	}
	if entry == nil || entry.rolledOut() {
		count(&Held{}, nil, l.outs, out, at)
		clear(l.waits)
		if entry != nil && now.Leading {
			entry.nameFailing(now)
		}
		return
	}
	if entry != l.upgrade {
		l.beginTally(at, entry, begins)
	}
	for _, b := range now.Blockers {
		waits[b.Node] = true
	}
	entry.Out = count(entry, entry.Out, l.outs, out, at)
	entry.Waits = count(entry, entry.Waits, l.waits, waits, at)
	maps.Copy(l.counted, l.outs)
	if now.rolledOut(&l.census) {
		l.rollOut(at, entry)
	}
}

// beginTally starts the tally of an upgrade. An outage that already runs counts from now, unless its node began the
// upgrade.
func (l *Ledger) beginTally(at time.Time, entry *Held, begins map[protocol.NodeID]bool) {
	for id := range l.outs {
		if !begins[id] {
			l.outs[id] = at
		}
	}
	l.upgrade, l.began, l.counted = entry, begins, map[protocol.NodeID]time.Time{}
	l.other = l.facts.Version.Release != l.facts.Status.Status.ContentRelease
}

// beganHere reports whether the start of this sidecar began the upgrade.
func (l *Ledger) beganHere() bool {
	start := l.last(func(h *Held) bool { return h.Kind == Sidecar && h.Node == l.node })
	began := l.upgrade.Time
	return l.other && start != nil && !began.Before(start.Time) && (start.Open() || !start.Until.Before(began))
}

// lengthen adds to the outages of an upgrade the time before this ledger began, which the entries of others and of this
// node's former sidecar show. Without it, a node that begins an upgrade and then leads would count its own outage from
// the start of its new sidecar.
func (l *Ledger) lengthen() {
	for _, id := range slices.Sorted(maps.Keys(l.counted)) {
		from := l.counted[id]
		began := l.outSince(id, from)
		if began.Before(l.upgrade.Time) && !l.began[id] && (id != l.node || !l.beganHere()) {
			began = l.upgrade.Time
		}
		if !began.Before(from) {
			continue
		}
		l.counted[id] = began
		if _, still := l.outs[id]; still && l.upgrade.Open() && !l.upgrade.rolledOut() {
			l.outs[id] = began
			continue
		}
		l.upgrade.Out = plus(l.upgrade.Out, id, from.Sub(began))
		l.upgrade.dirty = true
	}
}

// outSince returns when the outage of a node at a time began, as far as the entries show it. Several may follow one another:
// the gate closes, the sidecar ends, the next one starts.
func (l *Ledger) outSince(id protocol.NodeID, at time.Time) time.Time {
	for earlier := true; earlier; {
		earlier = false
		for _, h := range l.held {
			if h.Node != id || !OutOfService(h.Entry) {
				continue
			}
			for _, s := range h.stretches() {
				if !s.partly && s.has(at) && s.From.Before(at) {
					at, earlier = s.From, true
				}
			}
		}
	}
	return at
}

// count adds to sums the times of the nodes that left the condition, and starts counting for the nodes that are in
// it now.
func count(
	entry *Held, sums map[protocol.NodeID]time.Duration, since map[protocol.NodeID]time.Time, is map[protocol.NodeID]bool, at time.Time,
) map[protocol.NodeID]time.Duration {
	var left []protocol.NodeID
	for id := range since {
		if !is[id] {
			left = append(left, id)
		}
	}
	slices.Sort(left)
	for _, id := range left {
		sums = plus(sums, id, at.Sub(since[id]))
		delete(since, id)
		entry.dirty = true
	}
	for id, so := range is {
		if _, counted := since[id]; so && !counted {
			since[id] = at
		}
	}
	return sums
}

// plus adds to the sum of a node in a copy. It keeps the MaxNodes nodes with the longest times.
func plus(sums map[protocol.NodeID]time.Duration, id protocol.NodeID, d time.Duration) map[protocol.NodeID]time.Duration {
	out := maps.Clone(sums)
	if out == nil {
		out = map[protocol.NodeID]time.Duration{}
	}
	out[id] += d
	if len(out) > MaxNodes {
		least := id
		for _, other := range slices.Sorted(maps.Keys(out)) {
			if out[other] < out[least] {
				least = other
			}
		}
		delete(out, least)
	}
	return out
}

// longest merges the sums of two leaders: each counted the same times, and may have missed some.
func longest(a, b map[protocol.NodeID]time.Duration) map[protocol.NodeID]time.Duration {
	for _, id := range slices.Sorted(maps.Keys(b)) {
		if a[id] < b[id] {
			a = plus(a, id, b[id]-a[id])
		}
	}
	return a
}

// settle counts the times that still run at the end of an upgrade.
func (l *Ledger) settle(at time.Time, h *Held) {
	if h.rolledOut() {
		if !h.objectsWaited() {
			h.Objects = nil // what failed for a moment
		}
		return
	}
	h.Out = count(h, h.Out, l.outs, nil, at)
	h.Waits = count(h, h.Waits, l.waits, nil, at)
}
