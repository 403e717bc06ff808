package model

import (
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// This file models rollbacks: administrators ask for the objects of an older
// release (docs/protocol-objects.md#rollback). The refusals of `sidecar rollback begin` are not
// in the model: no invariant depends on them.

// The safeguards of rollbacks. Their bits follow the safeguards of names.
const (
	// During a rollback, nodes of other releases do not lead.
	rollbackResigns safeguard = 1 << (48 - iota)
	// The leader of the release of the rollback does not wait for newer nodes to go.
	rollbackApplies
	// Removals wait for newer nodes too.
	newerNeeds
)

// A rollback ends when no newer node is registered any more.
const newerAwaited safeguard = 1 << 41

// beginRollback is `sidecar rollback begin`.
func (t *transition) beginRollback(to uint8) bool {
	st := t.state
	if st.changes == 0 || st.rollback == to {
		return false
	}
	st.changes--
	st.rollback = to
	t.say("an administrator begins a rollback to release %d", to)
	return true
}

// forgetRollback is `sidecar rollback end`, or the end of its time.
func (t *transition) forgetRollback() bool {
	if t.state.rollback == 0 {
		return false
	}
	t.say("the rollback to release %d is given up", t.state.rollback)
	t.state.rollback = 0
	return true
}

// endRollback is a sidecar that finds that the rollback is done.
func (t *transition) endRollback() bool {
	if t.state.rollback == 0 {
		return false
	}
	f, to := t.cfg.fleet(t.state), int(t.state.rollback)
	if !t.cfg.holds(newerAwaited) {
		newer := func(r *protocol.Record) bool { return release(to).Less(r.Node.Version.Release) }
		f.Records = slices.DeleteFunc(slices.Clone(f.Records), newer)
	}
	if !protocol.RollbackDone(t.cfg.view(t.state.status), f) {
		return false
	}
	t.noteNewer(to)
	t.say("the rollback to release %d is done, and ends", t.state.rollback)
	t.state.rollback = 0
	return true
}

// noteNewer notes that a rollback ends by itself while a newer controller is registered.
func (t *transition) noteNewer(to int) {
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		if n.record != 0 && n.record != corrupt && (n.serves || !n.roleless) && t.cfg.releaseOf(n.record) > to {
			t.event.endedBeside = fmt.Sprintf("the rollback to release %d ends while %s of release %d is registered", to, t.name(i), t.cfg.releaseOf(n.record))
		}
	}
}

// checkRolledBack: a rollback ends by itself only when no newer controller is registered.
func checkRolledBack(t *transition) string { return t.event.endedBeside }

// withRollback gives a fleet the rollback, as a node that runs a content sees it.
func (c *Config) withRollback(f *protocol.Fleet, to, run uint8) {
	if to == 0 || !c.holds(rollbackResigns) && run != 0 && c.releaseOf(run) != int(to) {
		return
	}
	f.Rollback = protocol.Rollback{To: release(int(to)), Revision: 1}
}

// rollbackMutated is Next without the safeguards of rollbacks.
func (c *Config) rollbackMutated(in protocol.Input) protocol.Step {
	own, to := in.Local.Version.Release, in.Fleet.Rollback
	if !to.On() || to.To != own {
		return protocol.Next(in)
	}
	if !c.holds(rollbackApplies) && own.Less(in.Status.Status.ContentRelease) {
		in.Fleet.Rollback = protocol.Rollback{}
		in.Fleet.Records = slices.Clone(in.Fleet.Records)
		for i, r := range in.Fleet.Records {
			dead := *r
			dead.Alive = dead.Alive && !own.Less(dead.Node.Version.Release)
			in.Fleet.Records[i] = &dead
		}
	}
	step := protocol.Next(in)
	if !c.holds(newerNeeds) && step.Kind == protocol.StepReconcile {
		step.Work.Removals = !slices.ContainsFunc(in.Fleet.Records, func(r *protocol.Record) bool {
			return r.Problem != "" || r.Node.Version.Release.Less(own)
		})
	}
	return step
}

// heldRollback returns why a leader that waits for ever in a rollback is wrong, or the empty string.
func (t *transition) heldRollback(own int, step *protocol.Step) string {
	to := int(t.state.rollback)
	switch {
	case to == 0:
		return ""
	case own != to:
		return fmt.Sprintf("release %d leads in a rollback to release %d", own, to)
	case step.Rule == protocol.HoldForNewer:
		return "the leader of a rollback waits for newer nodes to go"
	}
	return ""
}

// mayLeadRollback reports whether no rollback keeps a node from leading.
func (t *transition) mayLeadRollback(i int) bool {
	return t.state.rollback == 0 || t.cfg.releaseOf(t.state.nodes[i].run) == int(t.state.rollback)
}

// noteRemovals notes that a leader decides to remove an object of a registered node's release.
func (t *transition) noteRemovals(l int, step *protocol.Step) {
	if t.cfg.Immediately || !step.Work.Removals {
		return
	}
	kept := t.cfg.wanted(t.cfg.entry(step.Work.Content).content)
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		if n.record != 0 && n.record != corrupt && (n.serves || !n.roleless) && t.cfg.wanted(n.record)&^kept != 0 {
			t.event.removesNeeded = fmt.Sprintf("%s removes an object that %s, which is registered, has", t.name(int(t.state.leaders[l].node)), t.name(i))
		}
	}
}

// checkNeeded: no leader decides to remove an object of a registered controller's
// release.
func checkNeeded(t *transition) string { return t.event.removesNeeded }
