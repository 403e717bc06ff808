package model

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
		moveBeginRollback, moveForgetRollback, moveMendAPI, moveBackUp,
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
	for _, kind := range []moveKind{moveRegister, moveRead, moveReadStale, moveNotice, movePresence, moveExpirePresence, moveElect} {
		out.add(kind, cfg.Nodes)
	}
	out.add(moveExpireKey, 1)
	for _, kind := range []moveKind{moveObserve, moveCommit, movePass, moveLand} {
		out.add(kind, maxLeaders)
	}
	out.add(moveLandOrphan, maxOrphans)
	out.add(moveLoseOrphan, maxOrphans)
	out.addFor(moveStart, cfg.Nodes, 1, cfg.contents())
	if cfg.Roles {
		out.add(moveTakeRole, cfg.Nodes)
		out.add(moveGiveRole, cfg.Nodes)
	}
	if cfg.Stores {
		out.add(moveOtherParent, 1)
		out.add(moveOtherObject, len(cfg.Objects))
	}
	if cfg.Names && cfg.Builds == 2 {
		out.addFor(moveReplace, 1, firstName, 2)
	}
	if cfg.Reload {
		out.addFor(moveReload, cfg.Nodes, 1, cfg.contents())
	}
	for _, kind := range []moveKind{moveRemove, moveKill, moveLoseLeases, moveCorruptRecord} {
		out.add(kind, cfg.Nodes)
	}
	out.add(moveTimeout, maxLeaders)
	for _, kind := range []moveKind{moveDeleteStatus, moveCorruptStatus, moveDeleteParent} {
		out.add(kind, 1)
	}
	out.add(moveDeleteObject, len(cfg.Objects))
	if cfg.Expire {
		out.add(moveFence, cfg.Nodes)
		out.addFor(moveExpireRecord, cfg.Nodes, 0, maxLeaders)
	}
	out.addRest(cfg)
	return out
}

// addRest adds the moves of strangers, of kube-apiservers that do not answer, of
// repairs between two passes, and of backups.
func (m *moveList) addRest(cfg *Config) {
	if cfg.Ephemeral {
		for _, kind := range []moveKind{moveStop, moveStopAPI, moveLeave, moveGiveUp} {
			m.add(kind, cfg.Nodes)
		}
		m.addFor(moveDelete, cfg.Nodes, 0, maxLeaders)
	}
	if cfg.Services {
		m.addServices(cfg)
	}
	if cfg.Deployed {
		m.add(moveDeploy, cfg.Nodes)
	}
	if cfg.Cordons {
		for _, kind := range []moveKind{moveCordon, moveUncordon, moveLearnCordon} {
			m.add(kind, cfg.Nodes)
		}
	}
	if cfg.Rollbacks {
		m.addFor(moveBeginRollback, 1, 1, cfg.Releases)
		m.add(moveForgetRollback, 1)
		m.add(moveEndRollback, 1)
	}
	if cfg.Strangers {
		m.addFor(moveForge, len(cfg.Objects), 0, 2)
		m.add(moveStranger, len(cfg.Objects))
	}
	if cfg.Withdraw {
		for _, kind := range []moveKind{moveBreakAPI, moveMendAPI, moveCampaign} {
			m.add(kind, cfg.Nodes)
		}
		m.add(moveYield, maxLeaders)
	}
	if cfg.Keep {
		m.addFor(moveRepair, maxLeaders, 0, len(cfg.Objects))
		m.add(moveRepairMark, maxLeaders)
	}
	if cfg.KeysLeft {
		m.add(moveLeaveKey, cfg.Nodes)
		m.addFor(moveGiveUpLease, cfg.Nodes, 0, leaseEnds)
	}
	if cfg.Restore != restoreNothing {
		m.add(moveBackUp, 1)
		m.add(moveRestore, 1)
		m.add(moveNoticeRestore, cfg.Nodes)
	}
}

// addServices adds the moves of nodes that start and stop their services.
func (m *moveList) addServices(cfg *Config) {
	for _, kind := range []moveKind{moveLearnRole, moveServe, moveEndServices} {
		m.add(kind, cfg.Nodes)
	}
	if cfg.Publishes {
		m.add(moveUnpublish, cfg.Nodes)
	}
	if cfg.Failing {
		for _, kind := range []moveKind{moveBreakServices, moveTakePlace, moveFreePlace} {
			m.add(kind, cfg.Nodes)
		}
	}
	if !cfg.Ephemeral {
		m.add(moveStop, cfg.Nodes)
		m.add(moveGiveUp, cfg.Nodes)
	}
}

// moveList collects moves.
type moveList []move

// add adds a move for each of n things.
func (m *moveList) add(kind moveKind, n int) {
	for i := range n {
		*m = append(*m, move{kind: kind, a: uint8(i)})
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
	case moveRegister, moveRead, moveNotice, movePresence, moveElect, moveStop, moveStopAPI, moveLeave, moveGiveUp, moveLearnRole, moveServe:
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
	case moveOtherParent, moveOtherObject, moveGiveUpLease:
		return true
	case moveReplace:
		return st.changes > 0 && st.replacement == noName
	case moveBeginRollback:
		return st.changes > 0
	case moveForgetRollback, moveEndRollback:
		return st.rollback != 0
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
