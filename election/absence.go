package election

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Absence is since when a leader has seen the presence of a node gone.
type Absence struct {
	Since time.Time
	// Ends is when the leader passes over the node; zero: never, for its record
	// does not say after how long it may.
	Ends time.Time
}

// absences is what one leader has counted itself, on the monotonic clock
// (DESIGN 4.9). Nothing of it is taken over from another leader.
type absences struct {
	rewinds int // of the store: revisions compare only where it is equal
	nodes   map[protocol.NodeID]counted
}

// counted is the absence of a node while its record was not written.
type counted struct {
	Absence
	revision int64 // of the record
}

// count notes who is gone in a snapshot that was received at received, and
// writes into its records how long that has been so at now, an instant before
// the snapshot was asked for. A record that was written since counts anew: its
// presence may have been there in between (package fleet, fence.go).
func (a *absences) count(f protocol.Fleet, rewinds int, now, received time.Time) {
	was := a.nodes
	if rewinds != a.rewinds {
		was = nil
	}
	*a = absences{rewinds: rewinds, nodes: make(map[protocol.NodeID]counted)}
	for i := range f.Records {
		r := &f.Records[i]
		if r.Alive {
			continue
		}
		c, found := was[r.ID]
		if !found || c.revision != r.Revision {
			c = counted{Absence: Absence{Since: received}, revision: r.Revision}
			if r.Problem == "" && r.Node.FenceAfter > 0 {
				c.Ends = received.Add(r.Node.FenceAfter)
			}
		}
		r.Gone = max(0, now.Sub(c.Since))
		a.nodes[r.ID] = c
	}
}

// shown is what others are told.
func (a *absences) shown() map[protocol.NodeID]Absence {
	out := make(map[protocol.NodeID]Absence, len(a.nodes))
	for id, c := range a.nodes {
		out[id] = c.Absence
	}
	return out
}
