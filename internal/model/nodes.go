package model

import (
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

// start starts a node with a content. A sidecar that runs there is stopped
// gracefully first. A node that runs this content already is left alone.
func (t *transition) start(i int, content uint8) bool {
	n := &t.state.nodes[i]
	changes := n.record != content
	if n.run == content || n.leaving != notLeaving || changes && t.state.changes == 0 || t.cfg.Services && n.run != 0 {
		return false
	}
	if changes {
		t.state.changes--
	}
	t.stepDown(i)
	t.abandonKey(i)
	n.run, n.registered, n.ready, n.staleRead, n.alive, n.overdue = content, false, false, false, true, false
	n.unusable, n.withdrawn, n.rewound, n.behind, n.obeys = false, false, false, false, false
	n.services.held, n.services.wanted = t.cfg.Services, unknown
	t.say("%s is started with %s", t.name(i), t.contentText(content))
	if t.cfg.Coarse && t.cfg.holds(registerFirst) {
		t.register(i)
	}
	return true
}

// stepDown ends the leadership of a node gracefully, if it believes it leads.
func (t *transition) stepDown(i int) {
	if l := t.leadership(i); l >= 0 {
		t.say("%s steps down", t.name(i))
		t.resign(l)
	}
}

// dropLeadership ends the leadership of a node that dies. The key remains until
// its lease expires.
func (t *transition) dropLeadership(i int) {
	if l := t.leadership(i); l >= 0 {
		t.state.deadKey = t.state.deadKey || t.state.leaders[l].key
		t.depose(l)
	}
}

// leadership is the place of a node in state.leaders. -1: it does not lead.
func (t *transition) leadership(i int) int {
	return slices.IndexFunc(t.state.leaders[:], func(l leader) bool { return l.on && int(l.node) == i })
}

// register writes the record (docs/protocol-nodes.md#registration).
func (t *transition) register(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.registered || !n.alive || !t.mayRegister(i) {
		return false
	}
	t.putRecord(i, n.run)
	n.serves, n.plain = !n.roleless, n.roleless
	n.registered, n.staleRead, n.overdue, n.obeys = true, false, false, n.cordoned
	if t.cfg.holds(registerFirst) {
		n.ready = false
	}
	t.say("%s registers %s", t.name(i), t.contentText(n.run))
	return true
}

// putRecord writes a record. The guards of pending writes notice it.
func (t *transition) putRecord(i int, content uint8) {
	n := &t.state.nodes[i]
	if !t.cfg.holds(snapshot) {
		n.before = n.record
	}
	n.record = content
	n.absent, n.confirmed, n.expired = 0, 0, 0
	t.spoilEnding()
	if t.cfg.holds(deletesUnchanged) {
		n.chosen = 0
	}
	for l := range t.state.leaders {
		if w := &t.state.leaders[l].write; w.fleet == unmodified {
			w.fleet = modified
		}
	}
}

// read delivers the current status to a node, by a linearizable read after its
// registration or by its watch.
func (t *transition) read(i int) bool {
	n := &t.state.nodes[i]
	if t.cfg.Coarse || n.run == 0 || n.overdue || n.leaving != notLeaving || t.cfg.holds(registerFirst) && !n.registered {
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

// readStale delivers a status from before the current one that the node did not
// see yet and that admits it.
func (t *transition) readStale(i int) bool {
	n := &t.state.nodes[i]
	if !n.staleRead || n.overdue || t.withheld(i) != "" {
		return false
	}
	n.ready, n.staleRead = true, false
	t.say("%s receives an earlier status late, which admits it: it is ready", t.name(i))
	return true
}

// verdict is the gate's verdict on a status.
func (t *transition) verdict(i int, s status) protocol.Verdict {
	n := &t.state.nodes[i]
	if s.kind != protocol.StatusPresent && !n.ready && !t.cfg.holds(absentKeepsClosed) {
		return protocol.Verdict{Ready: true, Reason: protocol.Ready}
	}
	registered := n.registered || !t.cfg.holds(registerFirst)
	withheld := t.withheld(i)
	key := gateKey{run: n.run, registered: registered, plain: n.plain, ready: n.ready, withheld: withheld != "", obeys: n.obeys, status: s}
	if v, found := t.memo.verdicts[key]; found {
		return v
	}
	registration := protocol.Registration{Controller: !n.plain, Matches: registered, Revision: 1}
	if n.obeys {
		registration.Cordon = aCordon()
	}
	v := protocol.Judge(protocol.Facts{
		Reached: true, Services: withheld, Local: t.cfg.local(t.state, i), Status: t.cfg.view(s), Served: n.ready,
		Registration: registration,
	})
	t.memo.verdicts[key] = v
	return v
}

// notice lets a node notice that its record no longer matches its content and role.
func (t *transition) notice(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || !n.registered || n.record == n.run && n.roleless == n.plain && n.serves == !n.plain {
		return false
	}
	before := *n
	before.record, before.roleless, before.serves = n.run, n.plain, !n.plain
	rec, local := t.cfg.record(i, n), t.cfg.local(t.state, i)
	last := t.cfg.record(i, &before)
	if !noderecord.MustRegister(noderecord.RegistrationFacts{Found: n.record != 0, Record: rec, Last: last, Local: local}) {
		return false
	}
	n.registered, n.ready, n.staleRead = false, false, false
	t.say("%s notices that its record does not match what it runs", t.name(i))
	return true
}

// presence lets a sidecar whose presence expired write it again.
func (t *transition) presence(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.alive {
		return false
	}
	n.alive = true
	t.say("%s writes its presence again", t.name(i))
	t.announce(i)
	return true
}

// expirePresence lets the lease of a dead node expire.
func (t *transition) expirePresence(i int) bool {
	n := &t.state.nodes[i]
	if n.run != 0 || !n.alive {
		return false
	}
	n.alive, n.withdrawn = false, false
	t.say("the presence of %s expires", t.name(i))
	return true
}

// remove is `sidecar node remove --confirm-stopped`.
func (t *transition) remove(i int) bool {
	n := &t.state.nodes[i]
	if n.run != 0 || n.alive || n.record == 0 || n.services.run != 0 {
		return false
	}
	t.dropRecord(i)
	t.say("%s has stopped for good, and an administrator removes its record", t.name(i))
	return true
}

// takeRole is `sidecar node set-roles` without the controller role. It needs a node
// that is alive, or a stopped one (--confirm-stopped).
func (t *transition) takeRole(i int) bool {
	n := &t.state.nodes[i]
	if t.state.changes == 0 || n.record == 0 || n.record == corrupt || n.roleless || !n.alive && (n.run != 0 || n.services.run != 0) {
		return false
	}
	t.state.changes--
	t.putRecord(i, n.record)
	n.roleless = true
	if !n.alive || !t.cfg.holds(servesUntilRegistered) {
		n.serves = false
	}
	t.say("an administrator takes the controller role from %s", t.name(i))
	return true
}

// giveRole gives it back.
func (t *transition) giveRole(i int) bool {
	n := &t.state.nodes[i]
	if t.state.changes == 0 || n.record == 0 || n.record == corrupt || !n.roleless {
		return false
	}
	t.state.changes--
	t.putRecord(i, n.record)
	n.roleless = false
	t.say("an administrator gives the controller role back to %s", t.name(i))
	return true
}

// reload replaces the bundle of a sidecar that runs by another build of its release.
// No leader resigns, and no gate is touched. The sidecar corrects its record.
func (t *transition) reload(i int, content uint8) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || n.run == content || t.cfg.releaseOf(n.run) != t.cfg.releaseOf(content) || t.state.changes == 0 {
		return false
	}
	t.state.changes--
	if n.registered && n.record == n.run {
		t.putRecord(i, content)
	}
	n.run = content
	t.say("%s replaces its bundle: %s", t.name(i), t.contentText(content))
	return true
}

func readiness(v protocol.Verdict) string {
	if v.Ready {
		return "it is ready"
	}
	return fmt.Sprintf("it is not ready (%s)", v.Reason)
}
