package model

import "github.com/lockstep-dev/lockstep/protocol"

// transition is one move that is being applied to a state.
type transition struct {
	cfg   *Config
	state *state
	event event
	story *story // nil in a search, which needs no words
	count *counts
	memo  *memo
	// tracer is nil in a search.
	tracer tracer
}

// event describes a transition, as far as an invariant depends on it.
type event struct {
	// A status was committed by a leader.
	committed     bool
	byLeader      bool // the leader's key existed
	wasEpoch      uint8
	epoch         uint8
	was, now      status
	restriction   bool
	restrictFleet protocol.Fleet // the fleet at the commit

	// A request changed an object.
	wrote        bool
	object       int
	objectBefore object
	request      request
	late         bool // its sender no longer waited for it

	unasked string // a leader sent an object of another bundle, and people did not ask: why

	sent        bool // a leader sent a request
	sentFight   bool // its content was not the status's
	leftServing bool // a sidecar deleted its record while its kube-apiserver ran

	stoppedUnknown   bool // services were stopped by a sidecar that did not know its roles
	stoppedPublished bool // services were stopped while the address of their node was in the Service
	leftRunning      bool // a sidecar that stops ended while its services ran

	rollsBack bool // a leader decided to roll back while a newer node is registered

	removesNeeded string // a leader decided to remove an object of a registered node's release: why

	endedWrongly string // a rollback ended by itself, and should not: why

	noRoom bool // the new state does not fit into a value of type state
}

// apply makes the move and reports whether it was possible. If it was not, the
// state may be half changed, and the caller discards it.
func (t *transition) apply(m move) bool {
	done := false
	switch {
	case m.isFault():
		done = t.fault(m)
	case m.kind >= moveExpireKey:
		done = t.leaderMove(m)
	default:
		done = t.nodeMove(m)
	}
	if done && t.cfg.Coarse {
		t.readAll()
	}
	t.publish()
	return done
}

// readAll opens every gate that may open. Only invariants depend on whether a
// gate is open, and none of them can be broken by a closed gate. So states in
// which a node did not read the status yet add nothing.
func (t *transition) readAll() {
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		if n.run == 0 || n.ready || n.overdue || n.leaving != notLeaving || t.withheld(i) != "" ||
			t.cfg.holds(registerFirst) && !n.registered {
			continue
		}
		v := t.verdict(i, t.state.status)
		t.count.verdict(v.Reason)
		if v.Ready {
			n.ready = true
			t.say("%s reads the status: it is ready", t.name(i))
		}
	}
}

func (t *transition) nodeMove(m move) bool {
	i := int(m.a)
	switch m.kind {
	case moveStart:
		return t.start(i, m.b)
	case moveRegister:
		return t.register(i)
	case moveRead:
		return t.read(i)
	case moveReadStale:
		return t.readStale(i)
	case moveNotice:
		return t.notice(i)
	case movePresence:
		return t.presence(i)
	case moveExpirePresence:
		return t.expirePresence(i)
	case moveRemove:
		return t.remove(i)
	case moveFence:
		return t.closeOverdue(i)
	case moveStop:
		return t.beginStop(i)
	case moveStopAPI:
		return t.stopAPI(i)
	case moveLeave:
		return t.leave(i)
	case moveGiveUp:
		return t.giveUp(i)
	case moveLearnRole:
		return t.learnRole(i)
	case moveServe:
		return t.stepServices(i)
	case moveEndServices:
		return t.endServices(i)
	case moveUnpublish:
		return t.unpublish(i)
	case moveTakeRole:
		return t.takeRole(i)
	case moveGiveRole:
		return t.giveRole(i)
	case moveReload:
		return t.reload(i, m.b)
	case moveOtherParent:
		return t.otherParent()
	case moveOtherObject:
		return t.otherObject(i)
	case moveMendAPI:
		return t.mendAPI(i)
	case moveCampaign:
		return t.campaignAgain(i)
	case moveBackUp:
		return t.backUp()
	case moveNoticeRestore:
		return t.noticeRestore(i)
	default:
		return t.cordonMove(m)
	}
}

func (t *transition) leaderMove(m move) bool {
	i := int(m.a)
	switch m.kind {
	case moveExpireKey:
		return t.expireKey()
	case moveElect:
		return t.elect(i)
	case moveDelete:
		return t.deleteRecord(i, int(m.b))
	case moveObserve:
		return t.observe(i)
	case moveCommit:
		return t.commit(i)
	case movePass:
		return t.pass(i)
	case moveLand:
		return t.land(i)
	case moveYield:
		return t.yieldLeadership(i)
	case moveRepair:
		return t.repair(i, int(m.b))
	case moveRepairMark:
		return t.repairMark(i)
	case moveExpireRecord:
		return t.expireRecord(i, int(m.b))
	case moveLandOrphan:
		return t.landOrphan(i)
	case moveLoseOrphan:
		return t.loseOrphan(i)
	default:
		return false
	}
}
