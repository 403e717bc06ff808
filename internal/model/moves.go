package model

import "slices"

// move is something that can happen. Its effect depends only on the state that it
// is applied to, so its number in the list of moves is enough to repeat it.
type move struct {
	kind moveKind
	a, b uint8 // a node, leader, object or orphan; a content
}

type moveKind uint8

const (
	// Of nodes.
	moveStart moveKind = iota
	moveRegister
	moveRead
	moveReadStale
	moveNotice
	movePresence
	moveExpirePresence
	moveRemove
	moveFence
	moveStop
	moveStopAPI
	moveLeave
	moveGiveUp
	moveLearnRole
	moveServe
	moveEndServices
	moveUnpublish
	moveFreePlace
	moveDeploy
	moveTakeRole
	moveGiveRole
	moveCordon
	moveUncordon
	moveLearnCordon
	moveReload
	moveOtherParent
	moveOtherObject
	moveReplace
	moveBeginRollback
	moveForgetRollback
	moveEndRollback
	moveFindOver
	moveDropRollback
	moveSettle
	moveMendAPI
	moveCampaign
	moveBackUp
	moveNoticeRestore
	moveGiveUpLease
	// Of leaders.
	moveExpireKey
	moveElect
	moveDelete
	moveObserve
	moveCommit
	movePass
	moveLand
	moveYield
	moveRepair
	moveRepairMark
	moveExpireRecord
	// Of the API.
	moveLandOrphan
	moveLoseOrphan
	// Faults.
	moveKill
	moveLoseLeases
	moveLeaveKey
	moveTimeout
	moveDeleteStatus
	moveCorruptStatus
	moveCorruptRecord
	moveDeleteParent
	moveDeleteObject
	moveForge
	moveStranger
	moveBreakAPI
	moveBreakServices
	moveTakePlace
	moveRestore
	moveKinds = iota
)

// isFault reports whether the move counts as a fault.
func (m move) isFault() bool { return m.kind >= moveKill }

// isChange reports whether the move is something that administrators do.
func (m move) isChange() bool {
	switch m.kind {
	case moveStart, moveStop, moveRemove, moveTakeRole, moveGiveRole, moveCordon, moveUncordon, moveReload, moveReplace,
		moveBeginRollback, moveForgetRollback, moveFindOver, moveSettle, moveMendAPI, moveBackUp,
		moveFreePlace:
		return true
	default:
		return false
	}
}

// moves lists all moves of a configuration. The state decides which of them are
// possible.
func moves(cfg *Config) []move {
	out := moveList{}
	out.add(cfg.Nodes, moveRegister, moveRead, moveReadStale, moveNotice, movePresence, moveExpirePresence, moveElect)
	out.add(1, moveExpireKey)
	out.add(maxLeaders, moveObserve, moveCommit, movePass, moveLand)
	out.add(maxOrphans, moveLandOrphan, moveLoseOrphan)
	out.addFor(moveStart, cfg.Nodes, 1, cfg.contents())
	if cfg.Roles {
		out.add(cfg.Nodes, moveTakeRole, moveGiveRole)
	}
	if cfg.Stores {
		out.add(1, moveOtherParent)
		out.add(len(cfg.Objects), moveOtherObject)
	}
	if cfg.Names && cfg.Builds == 2 {
		out.addFor(moveReplace, 1, firstName, 2)
	}
	if cfg.Reload {
		out.addFor(moveReload, cfg.Nodes, 1, cfg.contents())
	}
	out.add(cfg.Nodes, moveRemove, moveKill, moveLoseLeases, moveCorruptRecord)
	out.add(maxLeaders, moveTimeout)
	out.add(1, moveDeleteStatus, moveCorruptStatus, moveDeleteParent)
	out.add(len(cfg.Objects), moveDeleteObject)
	if cfg.Expire {
		out.add(cfg.Nodes, moveFence)
		out.addFor(moveExpireRecord, cfg.Nodes, 0, maxLeaders)
	}
	out.addRest(cfg)
	if cfg.Deaths {
		out = slices.DeleteFunc(out, func(m move) bool { return m.isFault() && m.kind != moveKill && m.kind != moveRestore })
	}
	return out
}

// addRest adds the moves of strangers, of kube-apiservers that do not answer, of
// repairs between two passes, and of backups.
func (m *moveList) addRest(cfg *Config) {
	if cfg.Ephemeral {
		m.add(cfg.Nodes, moveStop, moveStopAPI, moveLeave, moveGiveUp)
		m.addFor(moveDelete, cfg.Nodes, 0, maxLeaders)
	}
	if cfg.Services {
		m.addServices(cfg)
	}
	if cfg.Deployed {
		m.add(cfg.Nodes, moveDeploy)
	}
	if cfg.Cordons {
		m.add(cfg.Nodes, moveCordon, moveUncordon, moveLearnCordon)
	}
	if cfg.Rollbacks {
		m.addFor(moveBeginRollback, 1, 1, cfg.Releases)
		m.add(1, moveForgetRollback, moveEndRollback)
		m.addRollbackEnds(cfg)
	}
	if cfg.Strangers {
		m.addFor(moveForge, len(cfg.Objects), 0, 2)
		m.add(len(cfg.Objects), moveStranger)
	}
	if cfg.Withdraw {
		m.add(cfg.Nodes, moveBreakAPI, moveMendAPI, moveCampaign)
		m.add(maxLeaders, moveYield)
	}
	if cfg.Keep {
		m.addFor(moveRepair, maxLeaders, 0, len(cfg.Objects))
		m.add(maxLeaders, moveRepairMark)
	}
	if cfg.KeysLeft {
		m.add(cfg.Nodes, moveLeaveKey)
		m.addFor(moveGiveUpLease, cfg.Nodes, 0, leaseEnds)
	}
	if cfg.Restore != restoreNothing {
		m.add(1, moveBackUp, moveRestore)
		m.add(cfg.Nodes, moveNoticeRestore)
	}
}

// addServices adds the moves of nodes that start and stop their services.
func (m *moveList) addServices(cfg *Config) {
	m.add(cfg.Nodes, moveLearnRole, moveServe, moveEndServices)
	if cfg.Publishes {
		m.add(cfg.Nodes, moveUnpublish)
	}
	if cfg.Failing {
		m.add(cfg.Nodes, moveBreakServices, moveTakePlace, moveFreePlace)
	}
	if !cfg.Ephemeral {
		m.add(cfg.Nodes, moveStop, moveGiveUp)
	}
}

// moveList collects moves.
type moveList []move

// add adds a move of each kind for each of n things.
func (m *moveList) add(n int, kinds ...moveKind) {
	for _, kind := range kinds {
		for i := range n {
			*m = append(*m, move{kind: kind, a: uint8(i)})
		}
	}
}

// addFor adds a move for each pair of n things and of others, which are numbered
// from first.
func (m *moveList) addFor(kind moveKind, n, first, others int) {
	for i := range n {
		for j := range others {
			*m = append(*m, move{kind: kind, a: uint8(i), b: uint8(first + j)})
		}
	}
}

// possible is a quick filter: if it returns false, apply would return false too.
func (m move) possible(st *state) bool {
	switch m.kind {
	case moveRegister, moveRead, moveNotice, movePresence, moveElect, moveStop, moveStopAPI, moveLeave, moveGiveUp,
		moveLearnRole, moveServe:
		return st.nodes[m.a].run != 0
	case moveReadStale:
		return st.nodes[m.a].staleRead
	case moveFence:
		return st.nodes[m.a].run != 0 && !st.nodes[m.a].alive
	case moveDelete:
		return st.nodes[m.a].chosen != 0
	case moveExpireRecord:
		return st.leaders[m.b].on && !st.nodes[m.a].alive
	case moveExpirePresence, moveRemove, moveEndServices:
		return st.nodes[m.a].run == 0
	case moveExpireKey:
		return st.deadKey
	case moveObserve, moveCommit, movePass, moveLand, moveYield, moveRepair, moveRepairMark:
		return st.leaders[m.a].on
	case moveLandOrphan, moveLoseOrphan:
		return st.orphans[m.a].kind != noRequest
	case moveStart:
		return st.nodes[m.a].run != m.b
	case moveDeploy:
		return st.nodes[m.a].run != st.nodes[m.a].deployed
	case moveTakeRole, moveGiveRole:
		return st.changes > 0 && st.nodes[m.a].record != 0
	case moveCordon:
		return st.changes > 0 && !st.nodes[m.a].cordoned
	case moveUncordon:
		return st.nodes[m.a].cordoned
	case moveLearnCordon:
		return st.nodes[m.a].obeys != st.nodes[m.a].cordoned
	case moveOtherParent, moveOtherObject, moveGiveUpLease, moveDropRollback:
		return true
	case moveReplace:
		return st.changes > 0 && st.replacement == noName
	case moveBeginRollback:
		return st.changes > 0
	case moveForgetRollback, moveEndRollback, moveFindOver:
		return st.rollback != 0
	case moveSettle:
		return false // only progress makes it
	case moveFreePlace:
		return st.nodes[m.a].services.other != 0
	case moveUnpublish:
		return st.nodes[m.a].services.published
	case moveMendAPI, moveCampaign:
		return st.nodes[m.a].unusable || st.nodes[m.a].withdrawn
	case moveNoticeRestore:
		return st.nodes[m.a].behind
	case moveReload:
		return st.changes > 0 && st.nodes[m.a].run != 0
	case moveTimeout:
		return st.faults > 0 && st.leaders[m.a].pass.request.kind != noRequest
	default:
		return st.faults > 0
	}
}
