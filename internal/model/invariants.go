package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// invariant is a property of every transition (docs/protocol.md#invariants).
// Broken says why a transition breaks it, or returns the empty string.
type invariant struct {
	Name   string
	Broken func(t *transition) string
}

// invariants lists all of them, except Progress, which is not a property of
// single transitions.
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
		{"Awaited", checkAwaited},
		{"InOrder", checkInOrder},
		{"OwnEpochs", checkOwnEpochs},
		{"Listed", checkListed},
		{"OneBundle", checkOneBundle},
		{"Needed", checkNeeded},
		{"RolledBack", checkRolledBack},
	}
}

// present visits the releases of all content that is in the API.
func (t *transition) present(visit func(release int)) {
	for i, sh := range t.cfg.Objects {
		if sh == sameForm || (sh == droppedForm || sh == addedForm) && !t.mustBeGone(i) {
			continue // one form for all, or an object whose removal waits
		}
		if o := t.state.objects[i]; o.form != 0 && o.form != strange {
			visit(t.cfg.releaseOf(o.form))
		}
	}
}

// checkCompatible: a gate that is ready fits all content that is present.
func checkCompatible(t *transition) (why string) {
	for i := range t.cfg.Nodes {
		if !t.state.nodes[i].ready {
			continue
		}
		own := t.cfg.releaseOf(t.serving(i))
		t.present(func(content int) {
			if own < t.cfg.A[content-1] || content < t.cfg.M[own-1] {
				why = fmt.Sprintf("%s is ready with release %d while content of release %d is present", t.name(i), own, content)
			}
		})
	}
	return why
}

// checkCovers: the status admits no node that some present content shuts out, and
// there is no status before a first reconciliation was finished.
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
			why = fmt.Sprintf("content of release %d is present, and the status has version %d, minimum %d", content, s.version, s.least)
		}
	})
	return why
}

// checkRegistered: a gate is ready only while the record of its node names the
// running release. A record that was damaged later holds leaders back all the
// same.
func checkRegistered(t *transition) string {
	for i := range t.cfg.Nodes {
		n := &t.state.nodes[i]
		if n.ready && n.record != corrupt && (n.record == 0 || t.cfg.releaseOf(n.record) != t.cfg.releaseOf(n.run)) {
			return fmt.Sprintf("%s is ready with release %d, which is not in its record", t.name(i), t.cfg.releaseOf(n.run))
		}
	}
	return ""
}

// checkOneWriter: each revision of the status was written by the confirmed leader
// of its epoch, and epochs grow.
func checkOneWriter(t *transition) string {
	switch {
	case !t.event.committed:
		return ""
	case !t.event.byLeader:
		return "a status was written by a node that does not lead"
	case t.event.now.epoch != t.event.epoch:
		return "a status was written that names another leader than its writer"
	case t.event.epoch < t.event.wasEpoch:
		return "a status was written in an epoch below that of the status before"
	}
	return ""
}

// checkNoStaleWrite: no write changes an object of a higher content epoch, and no
// late write of other content changes one of the same epoch.
func checkNoStaleWrite(t *transition) string {
	was, r := t.event.objectBefore, t.event.request
	switch {
	case !t.event.wrote || was.form == 0 || was.forged || r.content.epoch > was.stamp.epoch:
		return ""
	case r.content.epoch == was.stamp.epoch && (r.content.content == was.stamp.content || !t.event.late):
		return ""
	}
	return fmt.Sprintf("object %d of %s, content epoch %d, was overwritten with %s, content epoch %d",
		t.event.object+1, t.contentText(was.stamp.content), was.stamp.epoch, t.contentText(r.content.content), r.content.epoch)
}

// checkGuardHeld: a restriction is committed only while no blocker is registered.
func checkGuardHeld(t *transition) string {
	if !t.event.committed || !t.event.restriction || t.event.was.kind != protocol.StatusPresent {
		return ""
	}
	blockers := protocol.Blockers(t.cfg.plain(t.event.was), t.cfg.plain(t.event.now), t.event.restrictFleet, "")
	if len(blockers) == 0 {
		return ""
	}
	return fmt.Sprintf("the status was restricted while %s was a blocker", t.nameOf(blockers[0].Node))
}

// checkSteady: no write of the status by a leader closes the gate of a node that
// serves.
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

// checkDoneIsDone: when the status is DONE, all objects are in the form of its
// bundle, and no late write changes them afterwards. Objects that were deleted by
// others do not count.
func checkDoneIsDone(t *transition) string {
	s := t.state.status
	if s.kind != protocol.StatusPresent || s.state != protocol.Done {
		return ""
	}
	if t.event.wrote && !t.state.old && t.event.request.content.content != s.content.content &&
		t.state.objects[t.event.object].form != t.cfg.form(t.event.object, s.content.content) {
		return fmt.Sprintf("object %d was changed by a stale write while the status is DONE", t.event.object+1)
	}
	if !t.event.committed {
		return ""
	}
	for i := range t.cfg.Objects {
		want := t.cfg.form(i, s.content.content)
		if want == 0 && !t.mustBeGone(i) {
			continue
		}
		if o := t.state.objects[i]; o.form != 0 && o.form != want {
			return fmt.Sprintf("DONE was written while object %d is not in the form of the bundle", i+1)
		}
	}
	return ""
}

// checkNoFight: a leader writes objects only towards the content of the status,
// and never decides to roll back while a node of a newer release is registered
// (docs/protocol.md#rule-hold-for-newer).
func checkNoFight(t *transition) string {
	if t.event.rollsBack {
		return "a leader rolls back while a newer node is registered"
	}
	if t.event.sent && t.event.sentFight {
		return "a leader works towards other content than that of the status"
	}
	return ""
}
