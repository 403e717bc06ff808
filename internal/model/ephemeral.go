package model

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

// This file models the nodes whose IDs do not return (docs/protocol-nodes.md#ephemeral): how
// they stop gracefully, and how their records are deleted.

// leaving is the progress of a sidecar that stops gracefully. Its gate is closed for
// good, and it does not lead.
type leaving uint8

const (
	notLeaving   leaving = iota
	servesStill          // its kube-apiserver still runs
	servesNoMore         // its kube-apiserver has stopped
)

// The safeguards of ephemeral records. Their bits are counted from the top,
// the bits in safeguards.go from the bottom.
const (
	// A sidecar deletes its record after its kube-apiserver stopped.
	leavesLast safeguard = 1 << (63 - iota)
	// A leader deletes only records that it ignores.
	deletesExpired
	// A leader deletes a record only if it did not change since its snapshot.
	deletesUnchanged
)

// beginStop begins the graceful stop of a sidecar.
func (t *transition) beginStop(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.leaving != notLeaving || t.state.changes == 0 {
		return false
	}
	t.state.changes--
	t.say("%s begins to stop: its gate closes", t.name(i))
	t.stepDown(i)
	n.ready, n.staleRead, n.leaving = false, false, servesStill
	return true
}

// stopAPI ends the kube-apiserver of a node whose sidecar stops.
func (t *transition) stopAPI(i int) bool {
	n := &t.state.nodes[i]
	if n.leaving != servesStill || n.services.run != 0 {
		return false
	}
	n.leaving = servesNoMore
	t.say("the kube-apiserver of %s has stopped", t.name(i))
	return true
}

// leave lets a sidecar that stops delete its record, together with its presence.
func (t *transition) leave(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.leaving == notLeaving || n.record == 0 {
		return false
	}
	facts := noderecord.RetireFacts{
		Ephemeral: true, Roles: protocol.Roles{Controller: !n.roleless}, Present: n.alive,
		GateClosed: !n.ready, Leads: t.leadership(i) >= 0,
	}
	if n.record == corrupt {
		facts.Roles.Controller = !n.plain
	}
	if n.leaving == servesNoMore || !t.cfg.holds(leavesLast) {
		facts.Refused = noderecord.StoppedAfter
	}
	if decision, _ := noderecord.Retire(facts); decision != noderecord.DeleteRecord {
		return false
	}
	t.say("%s deletes its record and its presence, and ends", t.name(i))
	t.event.leftServing, t.event.leftRunning = n.leaving == servesStill, n.services.run != 0
	t.dropRecord(i)
	t.end(i)
	return true
}

// giveUp lets a sidecar that stops end, and leave its record.
func (t *transition) giveUp(i int) bool {
	n := &t.state.nodes[i]
	facts := noderecord.RetireFacts{
		Ephemeral: true, Roles: protocol.Roles{Controller: true}, Present: true, GateClosed: true, Waited: time.Hour,
	}
	if decision, _ := noderecord.Retire(facts); n.run == 0 || n.leaving == notLeaving || decision != noderecord.KeepRecord {
		return false
	}
	if t.cfg.Services && n.leaving != servesNoMore && t.cfg.holds(servicesEnd) {
		return false
	}
	t.event.leftRunning = n.services.run != 0
	t.say("%s ends, and its record stays", t.name(i))
	t.end(i)
	return true
}

// end ends a sidecar gracefully: it revokes the lease of its presence.
func (t *transition) end(i int) {
	n := &t.state.nodes[i]
	t.abandonKey(i)
	n.run, n.registered, n.alive, n.overdue, n.leaving = 0, false, false, false, notLeaving
}

// chooseDeletions is the part of a leader's round that decides which records to
// delete. It reports whether anything changed.
func (t *transition) chooseDeletions(l int) (changed bool) {
	if !t.cfg.Ephemeral {
		return false
	}
	f := t.cfg.fleetSeenBy(t.state, l)
	if !t.cfg.holds(deletesExpired) {
		for k := range f.Records {
			f.Records[k].Gone = t.cfg.expireAfter()
		}
	}
	due := noderecord.DeletionsDue(f, nodeID(int(t.state.leaders[l].node)))
	for _, r := range due {
		n := &t.state.nodes[place(r.ID)]
		changed = changed || n.chosen&bit(l) == 0
		n.chosen |= bit(l)
	}
	return changed
}

// deleteRecord is the transaction in which a leader deletes a record.
func (t *transition) deleteRecord(i, l int) bool {
	n, lead := &t.state.nodes[i], &t.state.leaders[l]
	if !lead.on || n.chosen&bit(l) == 0 {
		return false
	}
	n.chosen &^= bit(l)
	if !lead.key || n.alive || n.record == 0 {
		t.say("%s does not delete the record of %s: the guard fails", t.name(int(lead.node)), t.name(i))
		return true
	}
	t.say("%s deletes the record of %s, which has expired", t.name(int(lead.node)), t.name(i))
	t.dropRecord(i)
	return true
}

// dropRecord deletes a record. The guards of pending writes do not notice it.
func (t *transition) dropRecord(i int) {
	n := &t.state.nodes[i]
	n.record, n.before, n.expired, n.absent, n.confirmed, n.chosen = 0, 0, 0, 0, 0, 0
	n.serves, n.roleless, n.cordoned = false, false, false
}

// place is the inverse of nodeID.
func place(id protocol.NodeID) int { return int(id[1] - '1') }

// checkAwaited: a node whose gate is ready is registered, and no leader ignores its record.
// No sidecar deletes its record while its kube-apiserver runs.
func checkAwaited(t *transition) string {
	if t.event.leftServing {
		return "a sidecar deletes its record while its kube-apiserver runs"
	}
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		switch {
		case n.ready && n.record == 0:
			return t.name(i) + " is ready, and has no record"
		case n.ready && n.expired != 0:
			return t.name(i) + " is ready, and a leader ignores its record"
		}
	}
	return ""
}
