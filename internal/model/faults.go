package model

import (
	"github.com/lockstep-dev/lockstep/protocol"
)

// fault makes one fault happen.
func (t *transition) fault(m move) bool {
	if t.state.faults == 0 {
		return false
	}
	t.state.faults--
	i := int(m.a)
	switch m.kind {
	case moveKill:
		return t.kill(i)
	case moveLoseLeases:
		return t.loseLeases(i)
	case moveLeaveKey:
		return t.leaveKey(i)
	case moveTimeout:
		return t.timeout(i)
	case moveDeleteStatus:
		return t.loseStatus(protocol.StatusAbsent, "the status is deleted")
	case moveCorruptStatus:
		return t.loseStatus(protocol.StatusUndecodable, "garbage is written over the status")
	case moveCorruptRecord:
		return t.corruptRecord(i)
	case moveDeleteParent:
		return t.deleteParent()
	case moveDeleteObject:
		return t.deleteObject(i)
	case moveForge:
		return t.forge(i, m.b)
	case moveStranger:
		return t.createStranger(i)
	case moveBreakAPI:
		return t.breakAPI(i)
	case moveBreakServices:
		return t.breakServices(i)
	case moveTakePlace:
		return t.takePlace(i)
	case moveRestore:
		return t.restore()
	default:
		return false
	}
}

// kill ends a process at once. Its leases live on for a while.
func (t *transition) kill(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 {
		return false
	}
	t.say("%s is killed", t.name(i))
	t.countDeath(i)
	t.dropLeadership(i)
	t.abandonKey(i)
	n.run, n.registered, n.ready, n.staleRead, n.overdue = 0, false, false, false, false
	n.leaving = notLeaving
	n.services.held, n.services.wanted = false, unknown
	n.unusable, n.rewound, n.behind = false, false, false
	return true
}

// loseLeases lets the leases of a node expire that is paused or cut off. The node
// does not notice.
func (t *transition) loseLeases(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || !n.alive {
		return false
	}
	n.alive, n.keyLeft = false, false
	t.endLease(i)
	t.say("%s is cut off, and its leases expire", t.name(i))
	for l := range t.state.leaders {
		if lead := &t.state.leaders[l]; lead.on && int(lead.node) == i {
			lead.key = false
		}
	}
	return true
}

// timeout lets the sender of a request stop waiting for it. The request may land
// all the same.
func (t *transition) timeout(l int) bool {
	lead := &t.state.leaders[l]
	if !lead.on || lead.pass.request.kind == noRequest {
		return false
	}
	r := lead.pass.request
	lead.pass.request = request{}
	t.say("the request of %s times out, and it reads again", t.name(int(lead.node)))
	t.orphan(r)
	switch r.kind {
	case objectRequest, stripRequest, deleteRequest:
		t.readObject(l, int(r.object))
	default:
		t.failPass(l)
	}
	return true
}

// loseStatus deletes or damages the status.
func (t *transition) loseStatus(kind protocol.StatusKind, words string) bool {
	if t.state.status.kind != protocol.StatusPresent || !t.state.parent.exists && !t.cfg.BothLost {
		return false
	}
	t.say("%s", words)
	t.setStatus(status{kind: kind})
	return true
}

// corruptRecord writes garbage over a record.
func (t *transition) corruptRecord(i int) bool {
	n := &t.state.nodes[i]
	if n.record == 0 || n.record == corrupt {
		return false
	}
	t.say("garbage is written over the record of %s", t.name(i))
	t.putRecord(i, corrupt)
	return true
}

// deleteParent deletes the parent with the mark. The leader watches it. With two
// stores, or programs that do not know names, it does not happen: only the parent shows
// whose the objects are.
func (t *transition) deleteParent() bool {
	needed := t.cfg.Stores || t.cfg.Names && t.cfg.Builds > 2 || t.state.status.kind != protocol.StatusPresent && !t.cfg.BothLost
	if needed || !t.state.parent.exists && !t.state.parent.blank {
		return false
	}
	t.say("the parent of the set is deleted, with the mark")
	t.state.parent = parent{}
	t.state.unlisted = len(t.cfg.Objects) > 0 && t.cfg.drops()
	t.touchParent()
	t.drift()
	return true
}

// deleteObject deletes an object of the set.
func (t *transition) deleteObject(i int) bool {
	if t.state.objects[i].form == 0 {
		return false
	}
	t.say("object %d is deleted", i+1)
	t.state.objects[i] = object{}
	t.touchObject(i)
	t.drift()
	return true
}

// drift makes leaders check the objects again (docs/protocol-objects.md#drift). With
// Config.Keep, those that keep them repair them instead.
func (t *transition) drift() {
	if t.cfg.Keep {
		return
	}
	for l := range t.state.leaders {
		if lead := &t.state.leaders[l]; lead.on && lead.finished != (entry{}) {
			lead.due = true
		}
	}
}
