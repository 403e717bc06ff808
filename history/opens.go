package history

import (
	"cmp"
	"slices"
	"time"
)

// lasting returns the subject of an entry that lasts. An upgrade goes on, even if other releases join.
func (a about) lasting() about {
	if a.kind == Upgrade {
		return about{kind: Upgrade}
	}
	return a
}

// follow ends the open entries whose condition is over, and begins one for each condition that has none; before is when the fleet
// was observed before. A large fleet can have thousands of them, and each change of a record is observed.
func (l *Ledger) follow(before, at time.Time, lasting []Happening) {
	lasts := map[about]bool{} // those with an open entry; true: it lasts
	for _, h := range l.held {
		if h.Open() {
			lasts[h.about().lasting()] = false
		}
	}
	var fresh []Happening
	var ranked perRank
	for _, h := range lasting {
		a := h.about().lasting()
		switch _, begun := lasts[a]; {
		case begun:
			lasts[a] = true
		case ranked[rank(h.Kind)] < maxHeld:
			ranked[rank(h.Kind)]++
			fresh = append(fresh, h)
		}
	}
	for _, h := range l.held {
		if h.Open() && !lasts[h.about().lasting()] && l.mayEnd(h) {
			l.end(at, h)
		}
	}
	open := l.open()
	for _, h := range fresh {
		if a := h.about().lasting(); !lasts[a] && open.room(h.Kind) {
			l.begin(h.begunAt(before, at), h)
			lasts[a] = true
			open[rank(h.Kind)]++
		}
	}
}

// perRank is how many entries there are of each rank.
type perRank [ranks]int

// open counts the open entries.
func (l *Ledger) open() perRank {
	var out perRank
	for _, h := range l.held {
		if h.Open() {
			out[rank(h.Kind)]++
		}
	}
	return out
}

// room reports whether an entry of a kind can begin: maxHeld may be open, and an important one takes the place of another. Without
// it, the conditions beyond the bound would begin again at each observation, and be counted and logged each time.
func (c perRank) room(k Kind) bool {
	less, all := 0, 0
	for r, n := range c {
		all += n
		if r < rank(k) {
			less += n
		}
	}
	return all < maxHeld || less > 0
}

// mayEnd reports whether an open entry is over if its condition is not among the lasting ones.
func (l *Ledger) mayEnd(h *Held) bool {
	switch {
	case h.Kind == Gate || h.Kind == Sidecar:
		return false // Verdict ends them
	case h.Kind.ofFleet() && l.facts.Fleet.Revision == 0, h.Kind == Blocked && !l.facts.Leading, !h.Kind.ofFleet() && h.Node != l.node:
		return false // not known here
	case h.Kind == Upgrade && l.facts.applying():
		return false // after the last node, the leader applies the objects
	}
	return true
}

// forget drops entries that need no more attention: they are written and cannot grow, or the leader of that time
// must have written them.
func (l *Ledger) forget(at time.Time) {
	l.held = slices.DeleteFunc(l.held, func(h *Held) bool {
		old := !h.Open() && at.Sub(h.Until) >= mergeWithin
		return old && !h.dirty || old && h.Kind.ofFleet() && !l.leading && at.Sub(h.Until) >= keepUnwritten
	})
	for len(l.held) > maxHeld {
		drop := slices.Index(l.held, slices.MinFunc(l.held, lessNeeded))
		l.held = slices.Delete(l.held, drop, drop+1)
	}
}

// lessNeeded orders entries by how soon they are dropped: those that ended first, then the less important, then the older ones.
func lessNeeded(a, b *Held) int {
	open := func(h *Held) int {
		if h.Open() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(open(a), open(b)), cmp.Compare(rank(a.Kind), rank(b.Kind)))
}
