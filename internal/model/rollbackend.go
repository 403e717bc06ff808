package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// This file models the end of a rollback: people end it, or a sidecar finds that it is done
// or that its time is over, and deletes the key. These are two moves, unless no other process
// can tell them apart.

// ending is what a sidecar found about the rollback, before it deletes the key.
type ending uint8

const (
	notEnding ending = iota
	foundDone
	foundOver
	foundBefore // people began the rollback again since; only without the safeguard begunAgain
)

// addRollbackEnds adds the moves of a sidecar that ends a rollback in two steps.
func (m *moveList) addRollbackEnds(cfg *Config) {
	if !cfg.endsAtOnce() {
		m.add(1, moveFindOver, moveDropRollback)
	}
	if cfg.Ways {
		m.addFor(moveSettle, 2, 1, cfg.contents())
	}
}

// endsAtOnce reports whether the two moves that end a rollback are one.
func (c *Config) endsAtOnce() bool { return c.Coarse && c.rolls(endUnchanged) && c.rolls(begunAgain) }

// forgetRollback is `sidecar rollback end`, or the end of its time.
func (t *transition) forgetRollback() bool {
	if t.state.rollback == 0 {
		return false
	}
	t.say("the rollback to release %d is given up", t.state.rollback)
	t.state.rollback, t.state.whole, t.state.ending = 0, false, notEnding
	return true
}

// findDone is a sidecar that finds that the rollback is done.
func (t *transition) findDone() bool {
	st := t.state
	if st.rollback == 0 || st.ending != notEnding || !t.rollbackDone() {
		return false
	}
	st.ending = foundDone
	if t.cfg.endsAtOnce() {
		return t.dropRollback()
	}
	t.say("a sidecar finds that the rollback to release %d is done", st.rollback)
	return true
}

// rollbackDone reports whether the facts of this moment show that the rollback is done.
func (t *transition) rollbackDone() bool {
	f, v, to := t.cfg.fleet(t.state), t.cfg.view(t.state.status), release(int(t.state.rollback))
	if !t.cfg.rolls(newerAwaited) {
		f.Records = slices.DeleteFunc(f.Records, func(r *protocol.Record) bool { return to.Less(r.Node.Version.Release) })
	}
	if !t.cfg.rolls(corruptAwaited) {
		f.Records = slices.DeleteFunc(f.Records, func(r *protocol.Record) bool { return r.Problem != "" })
	}
	if s := &v.Status; !t.cfg.rolls(doneAwaited) {
		s.State, s.Version.Release, s.ContentRelease = protocol.Done, to, to
	}
	return protocol.RollbackDone(v, f)
}

// findOver is a sidecar that finds that the time of the rollback is over.
func (t *transition) findOver() bool {
	if t.state.rollback == 0 || t.state.ending != notEnding {
		return false
	}
	t.state.ending = foundOver
	t.say("a sidecar finds that the time of the rollback to release %d is over", t.state.rollback)
	return true
}

// spoilEnding lets the guard of a rollback's end fail, since a record or the status was written.
func (t *transition) spoilEnding() {
	if t.state.ending == foundDone && t.cfg.rolls(endUnchanged) {
		t.state.ending = notEnding
	}
}

// beginAgain lets the guard of a rollback's end fail, since people wrote the key.
func (t *transition) beginAgain() {
	switch {
	case t.cfg.rolls(begunAgain):
		t.state.ending = notEnding
	case t.state.ending != notEnding:
		t.state.ending = foundBefore
	}
}

// dropRollback deletes the key of the rollback.
func (t *transition) dropRollback() bool {
	st := t.state
	if st.ending == notEnding {
		return false
	}
	t.noteEnd(int(st.rollback))
	t.countWhole(st.rollback)
	t.say("the rollback to release %d ends", st.rollback)
	st.rollback, st.whole, st.ending = 0, false, notEnding
	return true
}

// noteEnd notes that a rollback ends by itself, and should not.
func (t *transition) noteEnd(to int) {
	s, why := t.state.status, ""
	switch t.state.ending {
	case foundBefore:
		why = "although people began it again"
	case foundDone:
		if s.kind != protocol.StatusPresent || s.state != protocol.Done || t.cfg.releaseOf(s.content.content) != to {
			why = "before the objects are there"
		}
		why = t.recordBeside(to, why)
	case notEnding, foundOver:
	}
	if why != "" {
		t.event.endedWrongly = fmt.Sprintf("the rollback to release %d ends %s", to, why)
	}
}

// recordBeside says which record keeps a rollback from being done, or returns the reason that there is.
func (t *transition) recordBeside(to int, why string) string {
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		switch {
		case n.record == corrupt:
			why = fmt.Sprintf("while the record of %s is corrupt", t.name(i))
		case n.record != 0 && (n.serves || !n.roleless) && t.cfg.releaseOf(n.record) > to:
			why = fmt.Sprintf("while %s of release %d is registered", t.name(i), t.cfg.releaseOf(n.record))
		}
	}
	return why
}

// checkRolledBack: a rollback ends by itself only when the objects are there and no newer
// controller is registered, and no rollback that people began since.
func checkRolledBack(t *transition) string { return t.event.endedWrongly }

// isOver reports whether the time of a rollback that people forget comes to its end.
func (c *Config) isOver(to uint8) bool {
	end := time.Unix(1, 0)
	r := protocol.Rollback{To: release(int(to)), Revision: 1, Until: end}
	return r.Over(end) && c.rolls(timeEnds)
}

// The ends of whole rollbacks, as counts.ended names them: all nodes were of a newer release when it began,
// and all gates are open when it is done.
const (
	wholeRollback           = "with all nodes and objects rolled back"
	wholeRollbackAfterDeath = "with all nodes and objects rolled back, after a death"
)

// countWhole counts a rollback that is done for all nodes and objects.
func (t *transition) countWhole(to uint8) {
	st := t.state
	if !st.whole || st.ending != foundDone {
		return
	}
	for i := range t.cfg.Nodes {
		if n := &st.nodes[i]; n.run == 0 || !n.ready || t.cfg.releaseOf(n.run) != int(to) {
			return
		}
	}
	t.count.ended[wholeRollback]++
	if int(st.faults) < t.cfg.Faults {
		t.count.ended[wholeRollbackAfterDeath]++
	}
}

// deathStep is the step of a leader that dies while it brings the objects back.
type deathStep struct {
	doing doing
	at    stage
	sent  requestKind
}

// countDeath counts the death of a leader that brings the objects back.
func (t *transition) countDeath(i int) {
	l := t.leadership(i)
	if l < 0 || t.state.rollback == 0 || t.cfg.releaseOf(t.state.nodes[i].run) != int(t.state.rollback) {
		return
	}
	lead := &t.state.leaders[l]
	t.count.deaths[deathStep{lead.doing, lead.pass.at, lead.pass.request.kind}]++
}
