package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Bounds of the journal in the store.
const (
	MaxEntries = 1000
	// fair is how many entries about the same thing stay when entries must be dropped.
	fair = 50
)

// Due returns copies of at most n entries that must be written now: the store may not contain them yet. Entries about the
// fleet are due only on the leader: another sidecar may name them differently.
func (l *Ledger) Due(n int) []Held {
	var out []Held
	for _, h := range l.held {
		if len(out) < n && h.dirty && (l.leading || !h.Kind.ofFleet()) {
			out = append(out, *h)
		}
	}
	return out
}

// Written records that an entry was written. If it has grown since, it is due again.
func (l *Ledger) Written(was Held, revision int64) {
	for _, h := range l.held {
		if h.ID == was.ID {
			h.Revision, h.dirty = revision, !same(h.Entry, was.Entry)
		}
	}
}

func same(a, b Entry) bool {
	return a.Until.Equal(b.Until) && a.Count == b.Count && a.Message == b.Message && a.Sentence() == b.Sentence() &&
		slices.EqualFunc(a.Parts, b.Parts, func(a, b Part) bool { return slices.Equal(a.At, b.At) })
}

// Adopt merges the stored entries into the ledger: after a start, after an election, and when another sidecar
// wrote an entry. An open entry of the store stays open here, with its older beginning.
func (l *Ledger) Adopt(at time.Time, stored []Held) {
	for _, s := range stored {
		if !s.Kind.ofFleet() && s.Node != l.node {
			continue
		}
		if own := l.last(func(h *Held) bool { return h.ID == s.ID }); own != nil {
			own.Revision = s.Revision
			out, waits := longest(own.Out, s.Out), longest(own.Waits, s.Waits)
			switch {
			case s.Kind.ofFleet() && !s.Open() && s.Count >= own.Count:
				own.Entry = s.Entry // another leader saw the end; Observe opens it again if it goes on
			case s.Time.Before(own.Time):
				own.Time = s.Time
			}
			own.Out, own.Waits = out, waits
			own.dirty = !same(own.Entry, s.Entry)
			continue
		}
		if !s.Open() && at.Sub(s.Until) >= mergeWithin {
			continue
		}
		open := l.last(func(h *Held) bool {
			return h.Open() && s.Open() && h.about().lasting() == s.about().lasting()
		})
		if open == nil {
			s.sinceSeen(at)
			l.held = append(l.held, &s)
			continue
		}
		adopt(open, s)
	}
	l.endClosings()
	slices.SortStableFunc(l.held, func(a, b *Held) int { return a.Time.Compare(b.Time) })
	l.lengthen()
}

// adopt gives an open entry the identity and the beginning of the stored one.
func adopt(own *Held, s Held) {
	own.ID, own.Revision, own.dirty = s.ID, s.Revision, true
	s.sinceSeen(own.Time)
	if s.Count >= own.Count {
		own.Count, own.Lasted, own.Spans = s.Count, s.Lasted, s.Spans
	}
	began, message := own.Time, own.Message
	own.Time, own.Message, own.Parts = s.Time, s.Message, s.Parts
	own.say(began, message)
	own.Out, own.Waits = longest(own.Out, s.Out), longest(own.Waits, s.Waits)
}

// ofFleet reports whether all sidecars notice entries of a kind, and the leader writes them.
func (k Kind) ofFleet() bool {
	switch k {
	case Node, Cordon, Turn, Leader, Status, Blocked, Upgrade, Rollback, Member, Store:
		return true
	case Sidecar, Gate, APIServer, Etcd, Service, Warning, Object, Bundle, Override:
	}
	return false
}

// ranks is how many ranks there are.
const ranks = 3

// rank is the importance of an entry: 0 is dropped first.
func rank(k Kind) int {
	switch k {
	case Upgrade, Rollback, Store, Member:
		return 2
	case Gate, APIServer, Etcd, Node, Leader, Override, Cordon, Turn, Service:
		return 1
	case Sidecar, Warning, Object, Bundle, Status, Blocked:
	}
	return 0
}

// bonus is the time by which Drop counts an important entry as newer than it is.
func bonus(k Kind) time.Duration {
	const day = 24 * time.Hour
	return [ranks]time.Duration{0, 30 * day, 365 * day}[rank(k)]
}

// Drop returns the entries that must be deleted so that at most n are left. First it drops the oldest entries of
// each thing that happened again and again, then the oldest of all, where bonus makes important ones newer.
func Drop(all []Entry, n int) []Entry {
	if len(all) <= n {
		return nil
	}
	order := slices.SortedStableFunc(slices.Values(all), func(a, b Entry) int {
		return cmp.Or(a.Time.Add(bonus(a.Kind)).Compare(b.Time.Add(bonus(b.Kind))), cmp.Compare(a.ID, b.ID))
	})
	times := map[about]int{}
	for _, e := range order {
		times[e.about()]++
	}
	var out, rest []Entry
	for _, e := range order {
		if len(out) < len(all)-n && times[e.about()] > fair {
			times[e.about()]--
			out = append(out, e)
			continue
		}
		rest = append(rest, e)
	}
	return append(out, rest[:max(0, len(all)-n-len(out))]...)
}

// Sort orders entries by their time, the newest last.
func Sort(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
}

// Filter selects the entries that people want to see. The zero Filter: all.
type Filter struct {
	Node  protocol.NodeID
	Kind  Kind
	Since time.Time // an entry that ended before is left out
}

// Filtered returns the entries that a filter lets pass, in their order.
func (f Filter) Filtered(entries []Entry) []Entry {
	var out []Entry
	for _, e := range entries {
		switch {
		case f.Node != "" && !e.Concerns(f.Node), f.Kind != "" && e.Kind != f.Kind, !e.Open() && e.Until.Before(f.Since):
		default:
			out = append(out, e)
		}
	}
	return out
}
