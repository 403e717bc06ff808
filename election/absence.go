package election

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// absences are one leader's own observations, on the monotonic clock
// (docs/protocol-nodes.md#dead-nodes). A leader takes over no count from another one.
type absences struct {
	rewinds int // of the store: revisions are comparable only while it is the same
	nodes   map[protocol.NodeID]absence
}

// absence is the one of a node whose record was not written meanwhile.
type absence struct {
	since           time.Time
	mayRestartUntil time.Time
	// expires is when the leader stops waiting for the node; zero: never, because its record does not allow it.
	expires  time.Time
	revision int64 // of the record
}

// count notes which nodes of a snapshot have no presence. It replaces each of their records by a copy with
// MayRestart, and if it may expire, with Gone. The snapshot was requested after now and received at received: an absence counts
// from its arrival to the start of the latest request, so it is never too long. A record that was written
// meanwhile starts from zero: the node may have been present in between.
func (a *absences) count(f protocol.Fleet, rewinds int, now, received time.Time) {
	before := a.nodes
	if rewinds != a.rewinds {
		before = nil
	}
	*a = absences{rewinds: rewinds, nodes: make(map[protocol.NodeID]absence)}
	for i, r := range f.Records {
		if r.Alive {
			continue
		}
		c, counted := before[r.ID]
		if !counted || c.revision != r.Revision {
			c = absence{since: received, mayRestartUntil: received.Add(protocol.RemoveAfter), revision: r.Revision}
			if r.Problem == "" && r.Node.ExpireAfter > 0 {
				c.expires = received.Add(r.Node.ExpireAfter)
			}
		}
		absent := *r
		absent.MayRestart = now.Before(c.mayRestartUntil)
		if !c.expires.IsZero() {
			absent.Gone = max(0, now.Sub(c.since))
		}
		f.Records[i] = &absent
		a.nodes[r.ID] = c
	}
}

// shown returns the absences for State.
func (a *absences) shown() map[protocol.NodeID]report.Absence {
	out := make(map[protocol.NodeID]report.Absence, len(a.nodes))
	for id, c := range a.nodes {
		out[id] = report.Absence{GoneSince: report.At(c.since), PassedOverAt: report.At(c.expires)}
	}
	return out
}

// ends returns for each absent node when the leader stops waiting for it, and when a restart would be over.
func (a *absences) ends() []time.Time {
	out := make([]time.Time, 0, 2*len(a.nodes))
	for _, c := range a.nodes {
		out = append(out, c.expires, c.mayRestartUntil)
	}
	return out
}
