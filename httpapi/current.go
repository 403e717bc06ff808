package httpapi

import (
	"maps"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
)

// current returns the snapshot with parts that agree. What this sidecar knows of this node's gate, of its leadership and of
// this node's kube-apiserver is newer than its presence in the fleet, and the fleet is newer than the warnings
// about it.
// Otherwise /status would contradict itself for a moment after each change.
func (s Snapshot) current() Snapshot {
	s = s.withOwnPresence()
	s.Warnings = upgrade.CurrentWarnings(s.Warnings, s.Status, s.Fleet)
	return s
}

// withOwnPresence returns the snapshot with what this sidecar knows of its node in the presence of that.
func (s Snapshot) withOwnPresence() Snapshot {
	i := slices.IndexFunc(s.Fleet.Records, func(r *protocol.Record) bool { return r.ID == s.Local.ID })
	v := s.Gate.Verdict
	if i < 0 || v.Reason == "" || v.Reason == protocol.DuplicateNodeID { // not decided yet, or the presence is another sidecar's
		return s
	}
	own, old := *s.Fleet.Records[i], s.Fleet.Records[i].Presence
	own.Presence.Ready, own.Presence.Reason, own.Presence.APIServerDown = v.Ready, v.Reason, s.APIServer.Enabled && !s.APIServer.Ready
	if s.Election.State == protocol.Leading {
		own.Presence.Election = protocol.Leading
	}
	if now := own.Presence; !own.Alive || now.Ready == old.Ready && now.Reason == old.Reason && now.APIServerDown == old.APIServerDown &&
		now.Election == old.Election {
		return s
	}
	s.Fleet.Records = slices.Clone(s.Fleet.Records)
	s.Fleet.Records[i] = &own
	seen := s.Sightings[own.ID]
	_, seen.Serves = servesNow(s)
	s.Sightings = maps.Clone(s.Sightings)
	if s.Sightings == nil {
		s.Sightings = map[protocol.NodeID]Sighting{}
	}
	s.Sightings[own.ID] = seen
	return s
}
