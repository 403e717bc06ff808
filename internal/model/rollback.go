package model

import (
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// This file models rollbacks: administrators ask for the objects of an older
// release (docs/protocol-objects.md#rollback). The refusals of `sidecar rollback begin` are not
// in the model: no invariant depends on them. rollbackend.go ends them.

// rollbackSafeguard is a rule of rollbacks that a search can turn off.
type rollbackSafeguard uint16

// The safeguards of rollbacks.
const (
	// During a rollback, nodes of other releases do not lead.
	rollbackResigns rollbackSafeguard = 1 << iota
	// Nodes of its release lead although newer ones are alive.
	rollbackLeads
	// The leader of its release does not wait for newer nodes to go.
	rollbackApplies
	// Removals wait for newer nodes too.
	newerNeeds
	// It is done only when the status is DONE at its release,
	doneAwaited
	// no newer node is registered any more,
	newerAwaited
	// and no record is corrupt.
	corruptAwaited
	// It ends only if no record was written since it was found to be done.
	endUnchanged
	// Only the rollback that was read ends, not one that people began again.
	begunAgain
	// A rollback that people forget ends by its time.
	timeEnds
	// A leader does not wait until content is finished that another one began.
	halfReplaced
)

// rolls reports whether a rule of rollbacks is on.
func (c *Config) rolls(g rollbackSafeguard) bool { return c.OffRollback&g == 0 }

// beginRollback is `sidecar rollback begin`. To begin it again changes only its end in time, so that
// matters only if a sidecar is about to end it.
func (t *transition) beginRollback(to uint8) bool {
	st := t.state
	if st.changes == 0 || st.rollback == to && st.ending == notEnding {
		return false
	}
	st.changes--
	t.beginAgain()
	st.rollback, st.whole = to, t.cfg.Start == upgraded && t.allNewer(int(to))
	t.say("an administrator begins a rollback to release %d", to)
	return true
}

// allNewer reports whether all nodes and the objects are of releases above one.
func (t *transition) allNewer(to int) bool {
	for i := range t.cfg.Nodes {
		if r := t.state.nodes[i].record; r == 0 || r == corrupt || t.cfg.releaseOf(r) <= to {
			return false
		}
	}
	return t.state.status.kind == protocol.StatusPresent && t.cfg.releaseOf(t.state.status.content.content) > to
}

// withRollback gives a fleet the rollback, as a node that runs a content sees it.
func (c *Config) withRollback(f *protocol.Fleet, to, run uint8) {
	if to == 0 || !c.rolls(rollbackResigns) && run != 0 && c.releaseOf(run) != int(to) {
		return
	}
	f.Rollback = protocol.Rollback{To: release(int(to)), Revision: 1}
}

// yieldsInRollback reports whether a node does not lead because of newer nodes that may not lead.
func (c *Config) yieldsInRollback(f protocol.Fleet, local protocol.Local) bool {
	if c.rolls(rollbackLeads) {
		return false
	}
	f.Rollback = protocol.Rollback{}
	return protocol.Eligible(f, local).Reason == protocol.NewerAlive
}

// rollbackMutated is Next without the safeguards of rollbacks.
func (c *Config) rollbackMutated(in protocol.Input) protocol.Step {
	if !c.rolls(halfReplaced) && awaitsOther(in) {
		return protocol.Step{Kind: protocol.StepHold, Rule: protocol.HoldForNewer}
	}
	own, to := in.Local.Version.Release, in.Fleet.Rollback
	if !to.On() || to.To != own {
		return protocol.Next(in)
	}
	if c.yieldsInRollback(in.Fleet, in.Local) {
		return protocol.Step{Kind: protocol.StepResign, Rule: protocol.ResignToNewer}
	}
	if !c.rolls(rollbackApplies) && own.Less(in.Status.Status.ContentRelease) {
		in.Fleet.Rollback = protocol.Rollback{}
		in.Fleet.Records = slices.Clone(in.Fleet.Records)
		for i, r := range in.Fleet.Records {
			dead := *r
			dead.Alive = dead.Alive && !own.Less(dead.Node.Version.Release)
			in.Fleet.Records[i] = &dead
		}
	}
	step := protocol.Next(in)
	if !c.rolls(newerNeeds) && step.Kind == protocol.StepReconcile {
		step.Work.Removals = !slices.ContainsFunc(in.Fleet.Records, func(r *protocol.Record) bool {
			return r.Problem != "" || r.Node.Version.Release.Less(own)
		})
	}
	return step
}

// awaitsOther reports whether content of an older release than the leader's is unfinished.
func awaitsOther(in protocol.Input) bool {
	s := in.Status.Status
	return in.Status.Kind == protocol.StatusPresent && s.State == protocol.Working && s.ContentRelease.Less(in.Local.Version.Release)
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
