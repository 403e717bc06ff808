package model

import (
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// move is something that can happen. Its meaning depends on nothing but the
// world that it is applied to, so a number in the list of moves is enough to
// do it again.
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
	// Of leaders.
	moveExpireKey
	moveElect
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

// isChange reports whether people have to do something for the move.
func (m move) isChange() bool { return m.kind == moveStart || m.kind == moveRemove }

// moves lists all moves of a configuration. Which of them are possible depends
// on the world.
func moves(cfg *Config) []move {
	var out []move
	add := func(kind moveKind, n int) {
		for i := range n {
			out = append(out, move{kind: kind, a: uint8(i)})
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
	for i := range cfg.Nodes {
		for c := range cfg.contents() {
			out = append(out, move{kind: moveStart, a: uint8(i), b: uint8(c + 1)})
		}
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
		for i := range cfg.Nodes {
			for l := range maxLeaders {
				out = append(out, move{kind: moveExpireRecord, a: uint8(i), b: uint8(l)})
			}
		}
	}
	return out
}

// turn is one move being applied to a world.
type transition struct {
	cfg   *Config
	state *state
	event event
	story *story // nil in a search: nobody listens
	count *counts
	memo  *memo
}

// event is what a move did that an invariant asks about.
type event struct {
	// A status was committed by a leader.
	committed     bool
	byLeader      bool // whose key stands
	wasEpoch      uint8
	epoch         uint8
	was, now      status
	restriction   bool
	restrictFleet protocol.Fleet // what was registered then

	// A request changed an object.
	wrote        bool
	object       int
	objectBefore object
	request      request
	stale        bool // nobody waited for it any more

	// A leader sent a request of a content while the status tells another.
	sent      bool
	sentFight bool
	takesBack bool // a leader decided to take newer content back from a newer node

	noRoom bool // the world would have become larger than a state can hold
}

// possible reports whether m may be possible in w. It is quick, and may say yes
// to what apply then refuses.
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
	case moveTimeout:
		return st.faults > 0 && st.leaders[m.a].pass.request.kind != noRequest
	default:
		return st.faults > 0
	}
}

// apply does the move, and reports whether it was possible. What w is
// afterwards counts only then.
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
	return done
}

// readAll lets every gate open at once that may. Nothing but invariants depends
// on whether a gate is open, and none of them on that it is closed: so worlds
// in which a node has not looked yet add nothing.
func (t *transition) readAll() {
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		if n.run == 0 || n.ready || n.fenced || t.cfg.holds(registerFirst) && !n.registered {
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
		return t.fence(i)
	default:
		return false
	}
}

func (t *transition) leaderMove(m move) bool {
	i := int(m.a)
	switch m.kind {
	case moveExpireKey:
		return t.expireKey()
	case moveElect:
		return t.elect(i)
	case moveObserve:
		return t.observe(i)
	case moveCommit:
		return t.commit(i)
	case movePass:
		return t.pass(i)
	case moveLand:
		return t.land(i)
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

// start moves a node to a content: what ran there is stopped in good order
// first. Who runs that content already is not touched.
func (t *transition) start(i int, content uint8) bool {
	n := &t.state.nodes[i]
	changes := n.record != content
	if n.run == content || changes && t.state.changes == 0 {
		return false
	}
	if changes {
		t.state.changes--
	}
	t.stepDown(i)
	n.run, n.registered, n.ready, n.staleRead, n.alive, n.fenced = content, false, false, false, true, false
	t.say("%s is started with %s", t.name(i), t.contentText(content))
	if t.cfg.Coarse && t.cfg.holds(registerFirst) {
		t.register(i)
	}
	return true
}

// leave ends whatever leadership a node believes in, in good order.
func (t *transition) stepDown(i int) {
	if l := t.leadership(i); l >= 0 {
		t.say("%s steps down", t.name(i))
		t.resign(l)
	}
}

// vanish ends it without: the key stays until its lease expires.
func (t *transition) dropLeadership(i int) {
	if l := t.leadership(i); l >= 0 {
		t.state.deadKey = t.state.deadKey || t.state.leaders[l].key
		t.depose(l)
	}
}

// leadership is the place of a node in state.leaders; -1: none.
func (t *transition) leadership(i int) int {
	return slices.IndexFunc(t.state.leaders[:], func(l leader) bool { return l.on && int(l.node) == i })
}

// register writes the record (4.2).
func (t *transition) register(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.registered || !n.alive {
		return false
	}
	t.putRecord(i, n.run)
	n.registered, n.staleRead, n.fenced = true, false, false
	if t.cfg.holds(registerFirst) {
		n.ready = false
	}
	t.say("%s registers %s", t.name(i), t.contentText(n.run))
	return true
}

// putRecord modifies a record, which the guards of pending writes notice.
func (t *transition) putRecord(i int, content uint8) {
	n := &t.state.nodes[i]
	if !t.cfg.holds(snapshot) {
		n.before = n.record
	}
	n.record = content
	n.absent, n.confirmed, n.expired = 0, 0, 0
	for l := range t.state.leaders {
		if w := &t.state.leaders[l].write; w.fleet == unmodified {
			w.fleet = modified
		}
	}
}

// read lets a node see the status as it is, by a linearizable read after its
// registration or by its watch.
func (t *transition) read(i int) bool {
	n := &t.state.nodes[i]
	if t.cfg.Coarse || n.run == 0 || n.fenced || t.cfg.holds(registerFirst) && !n.registered {
		return false
	}
	v := t.verdict(i, t.state.status)
	t.count.verdict(v.Reason)
	if v.Ready == n.ready && !n.staleRead {
		return false
	}
	t.say("%s reads the status: %s", t.name(i), readiness(v))
	n.ready, n.staleRead = v.Ready, false
	return true
}

// told lets a node see a status from before the current one, which it has not
// seen and which admits it.
func (t *transition) readStale(i int) bool {
	n := &t.state.nodes[i]
	if !n.staleRead || n.fenced {
		return false
	}
	n.ready, n.staleRead = true, false
	t.say("%s is told, late, of a former status, which admits it: it is ready", t.name(i))
	return true
}

// judge asks the gate for its verdict on a status.
func (t *transition) verdict(i int, s status) protocol.Verdict {
	n := &t.state.nodes[i]
	if s.kind != protocol.StatusPresent && !n.ready && !t.cfg.holds(absentKeepsClosed) {
		return protocol.Verdict{Ready: true, Reason: protocol.Ready}
	}
	registered := n.registered || !t.cfg.holds(registerFirst)
	key := gateKey{run: n.run, registered: registered, ready: n.ready, status: s}
	if v, found := t.memo.verdicts[key]; found {
		return v
	}
	v := protocol.Judge(protocol.Facts{
		Reached: true, Local: t.cfg.local(t.state, i), Status: t.cfg.view(s), Served: n.ready,
		Registration: protocol.Registration{Controller: true, Confirmed: registered, Revision: 1},
	})
	t.memo.verdicts[key] = v
	return v
}

// notice lets a node see that its record no longer tells what it runs.
func (t *transition) notice(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || !n.registered || n.record == n.run {
		return false
	}
	rec, local := t.cfg.record(i, n.record, n.alive), t.cfg.local(t.state, i)
	last := t.cfg.record(i, n.run, n.alive)
	if !protocol.MustRegister(protocol.RegistrationFacts{Found: n.record != 0, Record: rec, Last: last, Local: local}) {
		return false
	}
	n.registered, n.ready, n.staleRead = false, false, false
	t.say("%s sees that its record does not tell what it runs", t.name(i))
	return true
}

// presence lets a sidecar whose presence expired put it again.
func (t *transition) presence(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.alive {
		return false
	}
	n.alive = true
	t.say("%s puts its presence again", t.name(i))
	t.announce(i)
	return true
}

// expire ends the leases of a dead node.
func (t *transition) expirePresence(i int) bool {
	n := &t.state.nodes[i]
	if n.run != 0 || !n.alive {
		return false
	}
	n.alive = false
	t.say("the presence of %s expires", t.name(i))
	return true
}

// expireKey ends the lease of a leader that is dead.
func (t *transition) expireKey() bool {
	if !t.state.deadKey || !t.cfg.holds(keysExpire) {
		return false
	}
	t.state.deadKey = false
	t.say("the leader's key of the dead leader expires")
	return true
}

// remove is `sidecar node remove --confirm-stopped`.
func (t *transition) remove(i int) bool {
	n := &t.state.nodes[i]
	if n.run != 0 || n.alive || n.record == 0 {
		return false
	}
	n.record, n.before, n.expired, n.absent, n.confirmed = 0, 0, 0, 0, 0
	t.say("%s has stopped for good, and people remove its record", t.name(i))
	return true
}

// words names a content, if somebody listens.
func (t *transition) contentText(content uint8) string {
	if t.story == nil {
		return ""
	}
	if t.cfg.Builds == 1 {
		return fmt.Sprintf("release %d", t.cfg.releaseOf(content))
	}
	return fmt.Sprintf("release %d, build %s", t.cfg.releaseOf(content), t.cfg.digest(content))
}

func readiness(v protocol.Verdict) string {
	if v.Ready {
		return "it is ready"
	}
	return fmt.Sprintf("it is not ready (%s)", v.Reason)
}
