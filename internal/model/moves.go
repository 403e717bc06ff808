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
	moveTakeRole
	moveGiveRole
	moveReload
	moveOtherParent
	moveOtherObject
	// Of leaders.
	moveExpireKey
	moveElect
	moveDelete
	moveObserve
	moveCommit
	movePass
	moveLand
	moveExpireRecord
	// Of the API.
	moveLandOrphan
	moveLoseOrphan
	// Faults.
	moveKill
	moveLoseLeases
	moveTimeout
	moveDeleteStatus
	moveCorruptStatus
	moveCorruptRecord
	moveDeleteParent
	moveDeleteObject
	moveKinds = iota
)

// isFault reports whether the move counts as a fault.
func (m move) isFault() bool { return m.kind >= moveKill }

// isChange reports whether the move is something that administrators do.
func (m move) isChange() bool {
	return m.kind == moveStart || m.kind == moveStop || m.kind == moveRemove ||
		m.kind == moveTakeRole || m.kind == moveGiveRole || m.kind == moveReload
}

// moves lists all moves of a configuration. The state decides which of them are
// possible.
func moves(cfg *Config) []move {
	var out []move
	// add adds a move for each of n things, addFor one for each pair of them and of
	// others, which are numbered from first.
	add := func(kind moveKind, n int) {
		for i := range n {
			out = append(out, move{kind: kind, a: uint8(i)})
		}
	}
	addFor := func(kind moveKind, n, first, others int) {
		for i := range n {
			for j := range others {
				out = append(out, move{kind: kind, a: uint8(i), b: uint8(first + j)})
			}
		}
	}
	for _, kind := range []moveKind{moveRegister, moveRead, moveReadStale, moveNotice, movePresence, moveExpirePresence, moveElect} {
		add(kind, cfg.Nodes)
	}
	add(moveExpireKey, 1)
	for _, kind := range []moveKind{moveObserve, moveCommit, movePass, moveLand} {
		add(kind, maxLeaders)
	}
	add(moveLandOrphan, maxOrphans)
	add(moveLoseOrphan, maxOrphans)
	addFor(moveStart, cfg.Nodes, 1, cfg.contents())
	if cfg.Roles {
		add(moveTakeRole, cfg.Nodes)
		add(moveGiveRole, cfg.Nodes)
	}
	if cfg.Ephemeral {
		for _, kind := range []moveKind{moveStop, moveStopAPI, moveLeave, moveGiveUp} {
			add(kind, cfg.Nodes)
		}
		addFor(moveDelete, cfg.Nodes, 0, maxLeaders)
	}
	if cfg.Stores {
		add(moveOtherParent, 1)
		add(moveOtherObject, len(cfg.Objects))
	}
	if cfg.Reload {
		addFor(moveReload, cfg.Nodes, 1, cfg.contents())
	}
	for _, kind := range []moveKind{moveRemove, moveKill, moveLoseLeases, moveCorruptRecord} {
		add(kind, cfg.Nodes)
	}
	add(moveTimeout, maxLeaders)
	for _, kind := range []moveKind{moveDeleteStatus, moveCorruptStatus, moveDeleteParent} {
		add(kind, 1)
	}
	add(moveDeleteObject, len(cfg.Objects))
	if cfg.Expire {
		add(moveFence, cfg.Nodes)
		addFor(moveExpireRecord, cfg.Nodes, 0, maxLeaders)
	}
	return out
}

// possible is a quick filter: if it returns false, apply would return false too.
func (m move) possible(st *state) bool {
	switch m.kind {
	case moveRegister, moveNotice, movePresence, moveElect:
		return st.nodes[m.a].run != 0
	case moveRead:
		return st.nodes[m.a].run != 0
	case moveReadStale:
		return st.nodes[m.a].staleRead
	case moveFence:
		return st.nodes[m.a].run != 0 && !st.nodes[m.a].alive
	case moveStop, moveStopAPI, moveLeave, moveGiveUp:
		return st.nodes[m.a].run != 0
	case moveDelete:
		return st.nodes[m.a].chosen != 0
	case moveExpireRecord:
		return st.leaders[m.b].on && !st.nodes[m.a].alive
	case moveExpirePresence, moveRemove:
		return st.nodes[m.a].run == 0
	case moveExpireKey:
		return st.deadKey
	case moveObserve, moveCommit, movePass, moveLand:
		return st.leaders[m.a].on
	case moveLandOrphan, moveLoseOrphan:
		return st.orphans[m.a].kind != noRequest
	case moveStart:
		return st.nodes[m.a].run != m.b
	case moveTakeRole, moveGiveRole:
		return st.changes > 0 && st.nodes[m.a].record != 0
	case moveOtherParent, moveOtherObject:
		return true
	case moveReload:
		return st.changes > 0 && st.nodes[m.a].run != 0
	case moveTimeout:
		return st.faults > 0 && st.leaders[m.a].pass.request.kind != noRequest
	default:
		return st.faults > 0
	}
}
