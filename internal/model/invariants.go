package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// invariant is a property of DESIGN 4.11. Broken returns what is wrong with a
// turn, after it was done, or the empty string.
type invariant struct {
	Name   string
	Broken func(t *transition) string
}

// Invariants lists them all, but for Progress, which is not one of single
// turns.
func invariants() []invariant {
	return []invariant{
		{"Compatible", checkCompatible},
		{"Covers", checkCovers},
		{"Registered", checkRegistered},
		{"OneWriter", checkOneWriter},
		{"NoStaleWrite", checkNoStaleWrite},
		{"GuardHeld", checkGuardHeld},
		{"Steady", checkSteady},
		{"DoneIsDone", checkDoneIsDone},
		{"NoFight", checkNoFight},
	}
}

// present visits the releases of all content that is in the API.
func (t *transition) present(visit func(release int)) {
	for i, shape := range t.cfg.Objects {
		if o := t.state.objects[i]; shape == changedForm && o.form != 0 {
			visit(t.cfg.releaseOf(o.form))
		}
	}
}

// checkCompatible: a gate that says ready fits all content that is present.
func checkCompatible(t *transition) (why string) {
	for i := range t.cfg.Nodes {
		if !t.state.nodes[i].ready {
			continue
		}
		own := t.cfg.releaseOf(t.state.nodes[i].run)
		t.present(func(content int) {
			if own < t.cfg.A[content-1] || content < t.cfg.M[own-1] {
				why = fmt.Sprintf("%s is ready with release %d while content of release %d is present", t.name(i), own, content)
			}
		})
	}
	return why
}

// checkCovers: the status is no wider than what all present content allows, and there
// is none before a first reconciliation was finished (4.1).
func checkCovers(t *transition) (why string) {
	s := t.state.status
	if s.kind != protocol.StatusPresent {
		return ""
	}
	if !t.state.complete {
		return "there is a status, and a first reconciliation was never finished"
	}
	t.present(func(content int) {
		if int(s.version) > content || int(s.least) < t.cfg.A[content-1] {
			why = fmt.Sprintf("content of release %d is present, and the status says version %d, minimum %d", content, s.version, s.least)
		}
	})
	return why
}

// checkRegistered: ready only with a record that tells the running release. A record
// that somebody damaged since holds leaders back all the same.
func checkRegistered(t *transition) string {
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		if n.ready && n.record != corrupt && (n.record == 0 || t.cfg.releaseOf(n.record) != t.cfg.releaseOf(n.run)) {
			return fmt.Sprintf("%s is ready with release %d, which its record does not tell", t.name(i), t.cfg.releaseOf(n.run))
		}
	}
	return ""
}

// checkOneWriter: each revision of the status is of the confirmed leader of its
// epoch, and epochs grow.
func checkOneWriter(t *transition) string {
	switch {
	case !t.event.committed:
		return ""
	case !t.event.byLeader:
		return "a status was written by a node that does not lead"
	case t.event.now.epoch != t.event.epoch:
		return "a status was written that tells of another leader than the one that wrote it"
	case t.event.epoch < t.event.wasEpoch:
		return "a status was written in an epoch below that of the status before"
	}
	return ""
}

// checkNoStaleWrite: no write of a lower content epoch changes an object, nor a late
// one of other content that has the same.
func checkNoStaleWrite(t *transition) string {
	was, r := t.event.objectBefore, t.event.request
	switch {
	case !t.event.wrote || was.form == 0 || r.stamp.epoch > was.stamp.epoch:
		return ""
	case r.stamp.epoch == was.stamp.epoch && (r.stamp.content == was.stamp.content || !t.event.stale):
		return ""
	}
	return fmt.Sprintf("object %d of %s, content epoch %d, was overwritten with %s, content epoch %d",
		t.event.object+1, t.contentText(was.stamp.content), was.stamp.epoch, t.contentText(r.stamp.content), r.stamp.epoch)
}

// checkGuardHeld: a restriction is committed only while no blocker is registered.
func checkGuardHeld(t *transition) string {
	if !t.event.committed || !t.event.restriction || t.event.was.kind != protocol.StatusPresent {
		return ""
	}
	blockers := protocol.Blockers(t.cfg.plain(t.event.was), t.cfg.plain(t.event.now), t.event.restrictFleet)
	if len(blockers) == 0 {
		return ""
	}
	return fmt.Sprintf("the status was restricted while %s was a blocker", t.nameOf(blockers[0].Node))
}

// checkSteady: a change of the status by a leader never closes the gate of a node
// that serves.
func checkSteady(t *transition) string {
	if !t.event.committed {
		return ""
	}
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		if !n.ready || !n.alive || !n.registered || n.record != n.run {
			continue
		}
		now := t.verdict(i, t.state.status)
		if protocol.ViolatesSteady(protocol.Verdict{Ready: true, Reason: protocol.Ready}, now) {
			return fmt.Sprintf("the status closes the gate of %s, which serves (%s)", t.name(i), now.Reason)
		}
	}
	return ""
}

// checkDoneIsDone: when the status says DONE, all objects are as its bundle has
// them, and no stale write changes them later. Objects that were deleted by
// somebody else do not count.
func checkDoneIsDone(t *transition) string {
	s := t.state.status
	if s.kind != protocol.StatusPresent || s.state != protocol.Done {
		return ""
	}
	if t.event.wrote && t.event.request.content.content != s.content.content &&
		t.state.objects[t.event.object].form != t.cfg.form(t.event.object, s.content.content) {
		return fmt.Sprintf("object %d was changed by a stale write while the status says DONE", t.event.object+1)
	}
	if !t.event.committed {
		return ""
	}
	for i := range t.cfg.Objects {
		if o := t.state.objects[i]; o.form != 0 && o.form != t.cfg.form(i, s.content.content) {
			return fmt.Sprintf("DONE was written while object %d is not as the bundle has it", i+1)
		}
	}
	return ""
}

// checkNoFight: between two changes of content an object is written only to reach
// that content, and no leader decides to take content back while a node of a
// newer release is registered (HoldForNewer).
func checkNoFight(t *transition) string {
	if t.event.takesBack {
		return "a leader takes newer content back while a newer node is registered"
	}
	if t.event.sent && t.event.sentFight {
		return "a leader works towards other content than the status tells"
	}
	return ""
}
