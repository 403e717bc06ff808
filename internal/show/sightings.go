package show

import (
	"maps"
	"time"

	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
)

// sightings are the states of all nodes as this sidecar saw them, and since when by its own clock.
// The clocks of machines differ, and a node that is not alive reports nothing.
type sightings struct {
	nodes    map[protocol.NodeID]sighting
	warnings map[httpapi.NodeWarning]seenWarning // of live nodes
	since    map[protocol.NodeID]httpapi.Sighting
	records  []*protocol.Record // of the observation; fleets share the values of unchanged records
	gone     bool               // a node is not alive
}

// seenWarning is since when a node reports a warning.
type seenWarning struct {
	// at is by this sidecar's clock; zero: the warning was present when its node was first observed, so its own time counts.
	at time.Time
	// since is by the node's clock, and stays while the message changes.
	since time.Time
}

// sighting is the observed state of a node, and since when.
type sighting struct {
	alive, serves bool
	reason        protocol.Reason // why it serves, or does not
	since         httpapi.Sighting
}

// mayRestart reports whether a node may be restarting.
func (s sighting) mayRestart(now time.Time) bool {
	return !s.alive && protocol.MayRestart(now.Sub(s.since.Alive))
}

// update returns the sightings after an observation of the fleet. The state of a node that is
// observed for the first time counts from now.
func (s sightings) update(f protocol.Fleet, now time.Time) sightings {
	if s.agree(f) {
		s.records = f.Records
		return s
	}
	out := sightings{
		records: f.Records, nodes: make(map[protocol.NodeID]sighting, len(f.Records)), warnings: map[httpapi.NodeWarning]seenWarning{},
		since: make(map[protocol.NodeID]httpapi.Sighting, len(f.Records)),
	}
	for _, r := range f.Records {
		was, known := s.nodes[r.ID]
		is := stateOf(r)
		is.since = was.since
		if !known || was.alive != is.alive {
			is.since.Alive = now
		}
		if !known || was.serves != is.serves || was.reason != is.reason {
			is.since.Serves = now
		}
		out.nodes[r.ID], out.since[r.ID], out.gone = is, is.since, out.gone || !is.alive
		for _, w := range r.Presence.Warnings {
			key := httpapi.NodeWarning{Node: r.ID, Reason: w.Reason, Subject: w.Subject, Message: w.Message}
			last, seen := s.lastSeen(key, w.Since)
			switch {
			case !r.Alive:
			case !seen && known && was.alive:
				out.warnings[key] = seenWarning{now, w.Since}
			default:
				out.warnings[key] = seenWarning{last.at, w.Since}
			}
		}
	}
	return out
}

// stateOf returns the state of a node, without since when.
func stateOf(r *protocol.Record) sighting {
	is := sighting{alive: r.Alive}
	if r.Alive {
		is.serves = r.Serves()
		is.reason, _ = r.WhyServes()
	}
	return is
}

// agree reports whether no node of a fleet has another state than before, and none warns: the case in which a change of one
// record of thousands has to be cheap.
func (s sightings) agree(f protocol.Fleet) bool {
	if len(f.Records) != len(s.records) || len(s.warnings) != 0 {
		return false
	}
	for i, r := range f.Records {
		if r == s.records[i] {
			continue
		}
		was, known := s.nodes[r.ID]
		is := stateOf(r)
		is.since = was.since
		if !known || is != was || len(r.Presence.Warnings) != 0 {
			return false
		}
	}
	return true
}

// lastSeen returns the sighting of a warning, or of the one whose message it replaces.
func (s sightings) lastSeen(key httpapi.NodeWarning, since time.Time) (seenWarning, bool) {
	if last, seen := s.warnings[key]; seen || since.IsZero() {
		return last, seen
	}
	for other, last := range s.warnings { // all that match were seen at the same time
		if other.Node == key.Node && other.Subject == key.Subject && last.since.Equal(since) {
			return last, true
		}
	}
	return seenWarning{}, false
}

func (s sightings) equal(o sightings) bool {
	return maps.Equal(s.nodes, o.nodes) && maps.Equal(s.warnings, o.warnings)
}

// Missing returns since when this sidecar has seen that a node is not alive; zero: it has not.
func (s *Show) Missing(id protocol.NodeID) time.Time {
	if is, known := s.seen.Get().nodes[id]; known && !is.alive {
		return is.since.Alive
	}
	return time.Time{}
}

// aliveSince returns since when, by this sidecar's sightings, a node is alive, or is not.
func (s sightings) aliveSince(r protocol.Record, now time.Time) time.Time {
	if was, known := s.nodes[r.ID]; known && was.alive == r.Alive {
		return was.since.Alive
	}
	return now
}

// servesSince returns since when, by this sidecar's sightings, a node serves, or does not, for its reason.
func (s sightings) servesSince(r protocol.Record, now time.Time) time.Time {
	is := stateOf(&r)
	if was, known := s.nodes[r.ID]; known && was.alive == is.alive && was.serves == is.serves && was.reason == is.reason {
		return was.since.Serves
	}
	return now
}

// warningsSince returns the times of the warnings that this sidecar saw begin.
func (s sightings) warningsSince() map[httpapi.NodeWarning]time.Time {
	out := map[httpapi.NodeWarning]time.Time{}
	for key, seen := range s.warnings {
		if !seen.at.IsZero() {
			out[key] = seen.at
		}
	}
	return out
}

// shown returns the sightings for a fleet that may be newer than they are: a state that changed since then counts
// from now.
func (s sightings) shown(f protocol.Fleet, now time.Time) map[protocol.NodeID]httpapi.Sighting {
	is := s.update(f, now)
	if !is.gone {
		return is.since
	}
	out := make(map[protocol.NodeID]httpapi.Sighting, len(f.Records))
	for id, node := range is.nodes {
		node.since.MayRestart = node.mayRestart(now)
		out[id] = node.since
	}
	return out
}
