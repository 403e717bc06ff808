package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// mergeWithin is how soon after its end the same thing must begin again to count as the same entry.
const mergeWithin = time.Minute

// keepUnwritten is how long a sidecar that does not lead remembers the entries of the leader. If the leader
// stopped before it wrote them, its successor writes them.
const keepUnwritten = 2 * time.Minute

// maxHeld bounds the entries in memory, also while etcd is unreachable.
const maxHeld = 256

// Ledger folds happenings into entries, and knows which of them must be written. It belongs to one sidecar, and
// has no clock: times must not go back by more than a clock is corrected. The zero Ledger is not valid: NewLedger.
type Ledger struct {
	node     protocol.NodeID
	held     []*Held // in the order of their discovery
	facts    Facts
	census   census    // of the fleet in facts
	known    bool      // facts were observed
	observed time.Time // when the fleet was observed last; zero: it was not
	leading  bool
	opened   time.Time                     // when this node's gate opened; zero: it is closed
	outs     map[protocol.NodeID]time.Time // since when each node that is out of service counts as out
	waits    map[protocol.NodeID]time.Time // since when the leader waits for each, during an upgrade

	news    []News                        // what began since TakeNews
	upgrade *Held                         // the newest upgrade or rollback whose times were counted; nil: none
	began   map[protocol.NodeID]bool      // the nodes that this ledger saw begin it
	other   bool                          // this node had another release than the objects when it began
	counted map[protocol.NodeID]time.Time // when the last outage of each node in it began
}

// Held is an entry in a ledger.
type Held struct {
	Entry
	Revision int64           // of its key in the store; 0: it is not stored yet
	dirty    bool            // the store has another version of the entry, or none
	counted  map[string]bool // the objects that are counted in Objects and More
}

// NewLedger returns the ledger of a node whose sidecar has just started.
func NewLedger(node protocol.NodeID, at time.Time) *Ledger {
	l := &Ledger{node: node, outs: map[protocol.NodeID]time.Time{}, waits: map[protocol.NodeID]time.Time{}}
	l.begin(at, Happening{Kind: Sidecar, Node: node, Reason: Started, Message: "the sidecar started, with a closed gate"})
	return l
}

// Verdict learns of a verdict of this node's gate.
func (l *Ledger) Verdict(at time.Time, was, now protocol.Verdict) {
	open := l.last(func(h *Held) bool {
		return h.Node == l.node && h.Open() && (h.Kind == Gate || h.Kind == Sidecar && now.Reason == protocol.ShuttingDown)
	})
	switch {
	case now.Admitted():
		if !was.Admitted() {
			l.opened = at
		}
		l.endClosings()
	case was.Admitted():
		l.opened = time.Time{}
		l.begin(at, Happening{Kind: Gate, Node: l.node, Reason: now.Reason, Message: now.Message})
	case open != nil && open.Reason != now.Reason:
		open.dirty = open.sayReason(at, string(now.Reason), now.Message) || open.dirty
	}
}

// endClosings ends the entries that an open gate ends, also those that a former sidecar of this node began.
func (l *Ledger) endClosings() {
	for _, h := range l.held {
		if !l.opened.IsZero() && (h.Kind == Gate || h.Kind == Sidecar) && h.Node == l.node && h.Open() {
			l.end(l.opened, h)
		}
	}
}

// Observe learns of the facts as they are now.
func (l *Ledger) Observe(at time.Time, now Facts) {
	was, before := l.facts, l.observed
	begins := l.begins(now)
	if now.Fleet.Revision != 0 && now.EtcdProblem == "" { // else the fleet may be older
		l.observed = at
	}
	l.census.follow(was.Fleet, now.Fleet)
	l.facts, l.leading = now, now.Leading
	if l.known {
		for _, h := range Compare(was, now) {
			l.note(at, h)
		}
	}
	l.known = true
	if !now.Leading { // a successor ends the open blockers of this leader
		l.held = slices.DeleteFunc(l.held, func(h *Held) bool { return h.Kind == Blocked && h.Open() })
	}
	l.follow(before, at, conditions(now, &l.census))
	l.tally(at, now, begins)
	l.forget(at)
}

// applying reports whether the leader applies the objects of an upgrade: a rollback takes its place at once.
func (f Facts) applying() bool {
	return f.Status.Kind == protocol.StatusPresent && f.Status.Status.State == protocol.Working && !f.Fleet.Rollback.On()
}

// begunAt returns when a happening that was first observed at a time began: its Since, but not after that time, nor
// before the observation before; zero: there was none. The clock of the machine that Since is from may be wrong.
func (h Happening) begunAt(before, at time.Time) time.Time {
	switch {
	case h.Since.IsZero(), h.Since.After(at):
		return at
	case h.Since.Before(before):
		return before
	}
	return h.Since
}

func (l *Ledger) last(ok func(*Held) bool) *Held {
	for _, h := range slices.Backward(l.held) {
		if ok(h) {
			return h
		}
	}
	return nil
}

// begin opens an entry; if the newest one about the same thing ended less than mergeWithin ago, it opens that one
// again.
func (l *Ledger) begin(at time.Time, h Happening) {
	if again := l.recent(at, h); again != nil && h.joins() {
		again.beginAgain(at)
		again.say(at, h.clipped())
		again.dirty = true
		l.report(again, 1)
		return
	}
	l.add(at, h)
}

// joins reports whether a happening that begins again joins the entry of a moment ago. What people begin, and a start, is an entry
// of its own, however soon it follows: the next one has another message.
func (h Happening) joins() bool {
	return !slices.Contains([]Kind{Upgrade, Rollback, Sidecar, Turn, Cordon, Override}, h.Kind)
}

// note adds a momentary happening.
func (l *Ledger) note(at time.Time, h Happening) {
	if again := l.recent(at, h); again != nil && !h.Kind.ofFleet() {
		again.Count += max(1, h.Count)
		again.Until, again.dirty = at, true
		again.say(at, h.clipped())
		again.name(h)
		l.report(again, max(1, h.Count))
		return
	}
	added := l.add(at, h)
	added.Until = at
	added.name(h)
}

// recent returns the entry about the same thing that ended a moment ago.
func (l *Ledger) recent(at time.Time, h Happening) *Held {
	return l.last(func(o *Held) bool {
		return !o.Open() && o.about() == h.about() && at.Sub(o.Until) < mergeWithin
	})
}

func (l *Ledger) add(at time.Time, h Happening) *Held {
	mark := fmt.Sprintf("%d", h.Mark)
	if h.Mark == 0 {
		mark = fmt.Sprintf("t%d", at.UnixMilli())
	}
	id := fmt.Sprintf("%s/%s/%s", h.Kind, h.Node, mark)
	if h.Subject != "" {
		id += fmt.Sprintf("-%08x", sum(h.Subject+string(h.Reason)))
	} else {
		id += "-" + string(h.Reason)
	}
	added := &Held{dirty: true, Entry: Entry{
		ID: id, Time: at, Kind: h.Kind, Node: h.Node, Subject: h.Subject, Reason: h.Reason,
		Message: h.clipped(), Count: max(1, h.Count),
	}}
	if at0 := slices.IndexFunc(l.held, func(o *Held) bool { return o.ID == id }); at0 >= 0 {
		added.Revision = l.held[at0].Revision
		l.held = slices.Delete(l.held, at0, at0+1)
	}
	l.held = append(l.held, added)
	l.report(added, added.Count)
	return added
}

// maxNews bounds the news between two calls of TakeNews.
const maxNews = maxHeld

// report adds to the news what this sidecar writes: what happened to its node, and while it leads, to the fleet.
func (l *Ledger) report(h *Held, times int) {
	if h.Kind.ofFleet() && !l.leading || len(l.news) >= maxNews {
		return
	}
	e := h.Entry
	e.Count = times
	l.news = append(l.news, News{e, h.Count > times})
}

// News is something that happened. Again: it joined an entry.
type News struct {
	Entry
	Again bool
}

// TakeNews returns what happened since the last call, each with how often.
func (l *Ledger) TakeNews() []News {
	out := l.news
	l.news = nil
	return out
}

// sum is FNV-1a: it only distinguishes the names of two subjects.
func sum(text string) uint32 {
	h := uint32(2166136261)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h
}

func (l *Ledger) end(at time.Time, h *Held) {
	h.endAt(at)
	h.dirty = true
	if ofRelease(h.Entry) {
		h.Reason = Done
		h.Message = clip(h.Message + "; " + l.outcome())
		l.settle(at, h)
	}
}

func (l *Ledger) outcome() string {
	if s := l.facts.Status; s.Kind == protocol.StatusPresent {
		return fmt.Sprintf("ended with objects of %s, %s", s.Status.ContentRelease, s.Status.State)
	}
	return "ended without a status"
}
