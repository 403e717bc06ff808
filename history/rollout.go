package history

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// An upgrade or a rollback goes on until its objects are complete. If one of them fails, that may take days, in which
// nodes are out of service for other reasons. So the first span of such an entry ends when every node serves with the
// release, and from then on its ledger counts no times of nodes.

// rolledOut reports whether every node served with the release of an upgrade or a rollback.
func (e Entry) rolledOut() bool { return ofRelease(e) && len(e.Spans) > 0 }

// ofRelease reports whether an entry is about the fleet's change to another release.
func ofRelease(e Entry) bool { return e.Kind == Upgrade || e.Kind == Rollback }

// afterNodes says how long the objects took after the nodes, if people may wonder.
func (e Entry) afterNodes() string {
	switch {
	case !e.rolledOut():
		return ""
	case e.Open():
		return "; all nodes serve since " + stamp(e.Spans[0].Until) + ", the objects are not complete" + e.failing()
	case e.objectsWaited():
		return "; all nodes served after " + short(e.Spans[0].Until.Sub(e.Time)) + ", it waited for the objects for " +
			short(e.Until.Sub(e.Spans[0].Until)) + e.failing()
	}
	return ""
}

// objectsWaited reports whether the objects took so long that something must have been wrong.
func (e Entry) objectsWaited() bool {
	return e.rolledOut() && !e.Open() && e.Until.Sub(e.Spans[0].Until) >= mergeWithin
}

func (e Entry) failing() string {
	if len(e.Objects) == 0 {
		return ""
	}
	return " (failed: " + strings.Join(e.Objects, ", ") + ")"
}

// rolledOut reports whether every node serves with the release to which the fleet goes, and none is waited for. c is
// the census of the fleet.
func (f Facts) rolledOut(c *census) bool {
	release, one := c.release()
	switch back := f.Fleet.Rollback; {
	case !one, len(f.Blockers) > 0, f.Status.Kind != protocol.StatusPresent:
		return false
	case back.On() && release != back.To, !back.On() && release.Less(f.Status.Status.ContentRelease):
		return false
	}
	return c.serves()
}

// rollOut records that every node serves with the release.
func (l *Ledger) rollOut(at time.Time, h *Held) {
	h.Waits = count(h, h.Waits, l.waits, nil, at)
	h.Spans, h.dirty = []Span{{h.Time, at}}, true
}

// rollsAgain records that nodes of another release joined an upgrade after every node had served.
func (l *Ledger) rollsAgain(h *Held) {
	h.Spans, h.Objects, h.dirty = nil, nil, true
	l.upgrade = nil
}

// nameFailing adds the objects that fail while an upgrade waits for its objects: the leader's warnings.
func (h *Held) nameFailing(now Facts) {
	for _, w := range now.Warnings {
		object := protocol.Cut(w.Subject, maxName)
		if w.Reason != warn.ObjectFailed || object == "" || slices.Contains(h.Objects, object) || len(h.Objects) == maxObjects {
			continue
		}
		h.Objects, h.dirty = append(slices.Clip(h.Objects), object), true
	}
}
