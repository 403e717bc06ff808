package model

import (
	"cmp"
	"slices"
)

// canonical removes details that make no difference to the future: which node is which,
// the size of content epochs, requests that the API is sure to refuse, and
// leaders that can do nothing more. It returns the new place of each node, for
// stories.
func (t *transition) canonical() [maxNodes]uint8 {
	t.dropDoomed()
	t.dropSpent()
	t.foldEpochs()
	return t.sortNodes()
}

// dropDoomed removes orphans that the API would refuse.
func (t *transition) dropDoomed() {
	orphans := &t.state.orphans
	for i, r := range orphans {
		if t.doomed(r) {
			orphans[i] = request{}
		}
	}
	slices.SortFunc(orphans[:], func(a, b request) int {
		return cmp.Or(
			-cmp.Compare(a.kind, b.kind), cmp.Compare(a.object, b.object), cmp.Compare(a.content.content, b.content.content),
			cmp.Compare(a.content.epoch, b.content.epoch), cmp.Compare(a.leader, b.leader), compareBools(a.create, b.create),
			compareBools(a.fresh, b.fresh), cmp.Compare(a.inventory, b.inventory),
		)
	})
}

// doomed reports whether the API refuses a request whenever it lands.
func (t *transition) doomed(r request) bool {
	if r.kind == deleteRequest && !t.cfg.holds(deletePreconditions) {
		return false
	}
	return t.cfg.holds(preconditions) && !r.create && !r.fresh
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// dropSpent ends leaderships whose key no longer exists. All that is left of them
// is a request that may land: their writes of the status cannot be committed, and
// their clocks stop them from sending more.
func (t *transition) dropSpent() {
	if t.cfg.LooseClock || !t.cfg.holds(confirmed|leaderGuard) {
		return
	}
	for l := len(t.state.leaders) - 1; l >= 0; l-- {
		if t.state.leaders[l].on && !t.state.leaders[l].key {
			t.depose(l)
		}
	}
}

// maxGap is the largest difference between two content epochs that is kept.
const maxGap = 3

// foldEpochs shifts all content epochs so that the lowest is 1, and shortens
// gaps. A state holds too few of them for one to reach farEpoch, which stays as it is.
func (t *transition) foldEpochs() {
	var used [2]uint64
	t.epochs(func(e *uint8) { used[*e/64] |= 1 << (*e % 64) })
	used[farEpoch/64] &= 1<<(farEpoch%64) - 1
	var to [128]uint8
	for e := farEpoch; e < len(to); e++ {
		to[e] = uint8(e)
	}
	last, now, moved := 0, uint8(0), false
	for e := 1; e < farEpoch; e++ {
		if e == 64 && used[1] == 0 {
			break
		}
		if used[e/64]&(1<<(e%64)) == 0 {
			continue
		}
		if now == 0 {
			now = 1
		} else {
			now += uint8(min(e-last, maxGap))
		}
		last, to[e] = e, now
		moved = moved || int(now) != e
	}
	if moved {
		t.epochs(func(e *uint8) { *e = to[*e] })
	}
}

// epochs visits every content epoch of the state.
func (t *transition) epochs(visit func(*uint8)) {
	visit(&t.state.status.content.epoch)
	for i := range t.cfg.Objects {
		visit(&t.state.objects[i].stamp.epoch)
	}
	visitEntries(&t.state.parent.entries, visit)
	if b := &t.state.backup; b.taken {
		visit(&b.status.content.epoch)
		for i := range t.cfg.Objects {
			visit(&b.objects[i].stamp.epoch)
		}
		visitEntries(&b.parent.entries, visit)
	}
	for i := range t.state.leaders {
		l := &t.state.leaders[i]
		if !l.on {
			continue
		}
		visitEntries(&l.mark.entries, visit)
		visit(&l.mark.highest)
		visit(&l.finished.epoch)
		visit(&l.write.status.content.epoch)
		visit(&l.pass.content.epoch)
		visit(&l.pass.fallback.epoch)
		visitRequest(&l.pass.request, visit)
	}
	for i := range t.state.orphans {
		visitRequest(&t.state.orphans[i], visit)
	}
}

func visitEntries(s *entries, visit func(*uint8)) {
	for i := range s {
		visit(&s[i].epoch)
	}
}

func visitRequest(r *request, visit func(*uint8)) {
	visit(&r.content.epoch)
	if r.rebuilds {
		visitEntries(&r.entries, visit)
	}
}

// sortNodes sorts the nodes by their contents, so that their names make no
// difference.
func (t *transition) sortNodes() (went [maxNodes]uint8) {
	var order [maxNodes]uint8
	for i := range order {
		order[i] = uint8(i)
	}
	keys := t.nodeKeys()
	for i := 1; i < t.cfg.Nodes; i++ {
		for k := i; k > 0 && keys[order[k]] < keys[order[k-1]]; k-- {
			order[k], order[k-1] = order[k-1], order[k]
		}
	}
	was := t.state.nodes
	for to, from := range order {
		went[from] = uint8(to)
		t.state.nodes[to] = was[from]
	}
	for l := range t.state.leaders {
		if lead := &t.state.leaders[l]; lead.on {
			lead.node = went[lead.node]
		}
	}
	return went
}

// packed packs booleans into a number, the first one lowest.
func packed(values ...bool) (out uint64) {
	for at, on := range values {
		if on {
			out |= 1 << at
		}
	}
	return out
}

// nodeKeys packs all that is known of each node into a number.
func (t *transition) nodeKeys() (keys [maxNodes]uint64) {
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		key := uint64(n.run)<<24 | uint64(n.record)<<16 | uint64(n.before)<<8
		key |= packed(n.registered, n.ready, n.staleRead, n.alive, n.overdue, n.serves, n.roleless, n.plain)
		key |= packed(n.unusable, n.withdrawn, n.rewound, n.behind, n.saved.alive, n.saved.serves) << 34
		key |= uint64(n.saved.key)<<50 | packed(n.saved.roleless, n.cordoned, n.obeys, n.keyLeft)<<52
		key |= uint64(n.chosen)<<42 | uint64(n.leaving)<<46
		key |= uint64(n.absent)<<40 | uint64(n.confirmed)<<44 | uint64(n.expired)<<48 | uint64(n.saved.record)<<56
		for l := range t.state.leaders {
			if t.state.leaders[l].on && int(t.state.leaders[l].node) == i {
				key |= uint64(l+1) << 32
			}
		}
		keys[i] = key
	}
	return keys
}
