package model

// backup is a copy of etcd at one moment. Records are kept at their nodes.
type backup struct {
	taken    bool
	status   status
	complete bool
	rollback uint8
	objects  [maxObjects]object // of the API, if it uses the same etcd
	parent   parent
}

// saved is a record, a presence and a candidate's key in the backup.
type saved struct {
	record                  uint8
	serves, roleless, alive bool
	key                     savedKey
}

// backUp takes the one backup of a run. All leaders of that time are former leaders
// after a restore.
func (t *transition) backUp() bool {
	st := t.state
	if st.backup.taken || st.faults == 0 {
		return false
	}
	st.backup = backup{taken: true, status: st.status, rollback: st.rollback}
	st.backup.status.epoch = 0
	if t.cfg.Restore == restoreAll {
		st.backup.complete, st.backup.objects, st.backup.parent = st.complete, st.objects, st.parent
		st.backup.parent.leader = 0
	}
	for i := range t.cfg.Nodes {
		n := &st.nodes[i]
		n.saved = saved{record: n.record, serves: n.serves, roleless: n.roleless, alive: n.alive, key: t.savedKeyOf(i)}
	}
	t.say("a backup of etcd is made")
	return true
}

// restore restores it. Meanwhile etcd is stopped for longer than a lease lives, so
// that leaders stop before it ends. If the API uses the same etcd, no request survives that.
func (t *transition) restore() bool {
	st := t.state
	b := st.backup
	if !b.taken {
		return false
	}
	t.say("etcd is restored from the backup: %s", t.statusText(b.status))
	for l := range st.leaders {
		if t.cfg.holds(restoreEndsTerm) {
			st.leaders[l].key = false
		}
	}
	if t.cfg.Restore == restoreAll {
		t.restoreAPI()
	}
	t.setStatus(b.status)
	st.rollback, st.whole, st.ending = b.rollback, false, notEnding
	st.backup, st.deadKey, st.old = backup{}, false, true
	for i := range t.cfg.Nodes {
		n := &st.nodes[i]
		t.putRecord(i, n.saved.record)
		n.before, n.serves, n.roleless, n.alive = 0, n.saved.serves, n.saved.roleless, n.saved.alive
		t.bringKeyBack(i)
		n.saved, n.rewound, n.behind = saved{}, n.run != 0, n.run != 0
		if !t.cfg.Unnoticed {
			t.noticeRestore(i)
		}
	}
	return true
}

// restoreAPI restores the objects and the parent in the API.
func (t *transition) restoreAPI() {
	st := t.state
	for l := range st.leaders {
		st.leaders[l].pass.request = request{}
	}
	st.complete, st.objects, st.parent, st.orphans = st.backup.complete, st.backup.objects, st.backup.parent, [maxOrphans]request{}
	t.touchParent()
	for i := range t.cfg.Objects {
		t.touchObject(i)
	}
}

// noticeRestore lets a sidecar notice that the store went back. It closes its gate
// until it registers again (docs/protocol-nodes.md#went-back).
func (t *transition) noticeRestore(i int) bool {
	n := &t.state.nodes[i]
	if !n.behind {
		return false
	}
	n.behind = false
	if t.cfg.holds(restoreRegisters) {
		n.registered, n.ready, n.staleRead, n.overdue = false, false, false, false
	}
	t.say("%s notices that etcd went back", t.name(i))
	return true
}

// isRestored reports whether a leader knows that a restore brought back the status.
func (t *transition) isRestored(l int) bool {
	return t.state.nodes[t.state.leaders[l].node].rewound && t.state.old
}

// awaitsRestore reports whether a leader's sidecar started after a restore,
// while a request from before it may still land. Restores take longer than that.
func (t *transition) awaitsRestore(l int) bool {
	return t.state.old && !t.state.nodes[t.state.leaders[l].node].rewound && !t.othersEnded(l)
}
