package election

import (
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// absences are one leader's own observations, on the monotonic clock
// (docs/protocol-nodes.md#dead-nodes). A leader takes over no count from another one.
type absences struct {
	rewinds int // of the store: revisions are comparable only while it is the same
	nodes   map[protocol.NodeID]absence
	// restarted is when restarts of the absent nodes would be over.
	restarted []time.Time
}

// absence is the one of a node whose record was not written meanwhile.
type absence struct {
	since time.Time
	// expires is when the leader stops waiting for the node; zero: never, because its record does not allow it.
	expires  time.Time
	revision int64 // of the record
}

// count notes which nodes of a snapshot have no presence. It replaces each of their records that may expire by a copy
// with Gone. The snapshot was requested after now and received at received: an absence counts
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
			c = absence{since: received, revision: r.Revision}
			if r.Problem == "" && r.Node.ExpireAfter > 0 {
				c.expires = received.Add(r.Node.ExpireAfter)
			}
		}
		if !c.expires.IsZero() {
			absent := *r
			absent.Gone = max(0, now.Sub(c.since))
			f.Records[i] = &absent
		}
		a.nodes[r.ID] = c
	}
}

// restarts returns a copy of a counted snapshot whose records show which nodes may be restarting. missing returns since when
// this sidecar has seen that a node is not alive: no decision rests on that, so it is older than the leadership.
func (a *absences) restarts(f protocol.Fleet, missing func(protocol.NodeID) time.Time, now time.Time) protocol.Fleet {
	a.restarted = nil
	return protocol.WithMayRestart(f, func(id protocol.NodeID) bool {
		since := missing(id)
		if since.IsZero() {
			since = now
		}
		a.restarted = append(a.restarted, since.Add(protocol.RemoveAfter))
		return protocol.MayRestart(now.Sub(since))
	})
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
	out := slices.Clone(a.restarted)
	for _, c := range a.nodes {
		out = append(out, c.expires)
	}
	return out
}
