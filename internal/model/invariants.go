package model

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Invariant is a property of DESIGN 4.11. Broken returns what is wrong with a
// turn, after it was done, or the empty string.
type Invariant struct {
	Name   string
	Broken func(t *turn) string
}

// Invariants lists them all, but for Progress, which is not one of single
// turns.
func Invariants() []Invariant {
	return []Invariant{
		{"Compatible", Compatible},
		{"Covers", Covers},
		{"Registered", Registered},
		{"OneWriter", OneWriter},
		{"NoStaleWrite", NoStaleWrite},
		{"GuardHeld", GuardHeld},
		{"Steady", Steady},
		{"DoneIsDone", DoneIsDone},
		{"NoFight", NoFight},
	}
}

// present visits the releases of all content that is in the API.
func (t *turn) present(visit func(release int)) {
	for i, shape := range t.cfg.Objects {
		if o := t.w.objects[i]; shape == Changed && o.form != 0 {
			visit(t.cfg.releaseOf(o.form))
		}
	}
}

// Compatible says: a gate that says ready fits all content that is present.
func Compatible(t *turn) (why string) {
	for i := range t.cfg.Nodes {
		if !t.w.nodes[i].ready {
			continue
		}
		own := t.cfg.releaseOf(t.w.nodes[i].run)
		t.present(func(content int) {
			if own < t.cfg.A[content-1] || content < t.cfg.M[own-1] {
				why = fmt.Sprintf("%s is ready with release %d while content of release %d is present", t.name(i), own, content)
			}
		})
	}
	return why
}

// Covers says: the status is no wider than what all present content allows, and there
// is none before a first reconciliation was finished (4.1).
func Covers(t *turn) (why string) {
	s := t.w.status
	if s.kind != protocol.StatusPresent {
		return ""
	}
	if !t.w.complete {
		return "there is a status, and a first reconciliation was never finished"
	}
	t.present(func(content int) {
		if int(s.version) > content || int(s.least) < t.cfg.A[content-1] {
			why = fmt.Sprintf("content of release %d is present, and the status says version %d, minimum %d", content, s.version, s.least)
		}
	})
	return why
}

// Registered says: ready only with a record that tells the running release. A record
// that somebody damaged since holds leaders back all the same.
func Registered(t *turn) string {
	for i := range t.cfg.Nodes {
		n := &t.w.nodes[i]
		if n.ready && n.record != corrupt && (n.record == 0 || t.cfg.releaseOf(n.record) != t.cfg.releaseOf(n.run)) {
			return fmt.Sprintf("%s is ready with release %d, which its record does not tell", t.name(i), t.cfg.releaseOf(n.run))
		}
	}
	return ""
}

// OneWriter says: each revision of the status is of the confirmed leader of its
// epoch, and epochs grow.
func OneWriter(t *turn) string {
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

// NoStaleWrite says: no write of a lower content epoch changes an object, nor a late
// one of other content that has the same.
func NoStaleWrite(t *turn) string {
	was, r := t.event.objectBefore, t.event.request
	switch {
	case !t.event.wrote || was.form == 0 || r.stamp.epoch > was.stamp.epoch:
		return ""
	case r.stamp.epoch == was.stamp.epoch && (r.stamp.content == was.stamp.content || !t.event.stale):
		return ""
	}
	return fmt.Sprintf("object %d of %s, content epoch %d, was overwritten with %s, content epoch %d",
		t.event.object+1, t.words(was.stamp.content), was.stamp.epoch, t.words(r.stamp.content), r.stamp.epoch)
}

// GuardHeld says: a restriction is committed only while no blocker is registered.
func GuardHeld(t *turn) string {
	if !t.event.committed || !t.event.restriction || t.event.was.kind != protocol.StatusPresent {
		return ""
	}
	blockers := protocol.Blockers(t.cfg.plain(t.event.was), t.cfg.plain(t.event.now), t.event.restrictFleet)
	if len(blockers) == 0 {
		return ""
	}
	return fmt.Sprintf("the status was restricted while %s was a blocker", t.nameOf(blockers[0].Node))
}

// Steady says: a change of the status by a leader never closes the gate of a node
// that serves.
func Steady(t *turn) string {
	if !t.event.committed {
		return ""
	}
	for i := range t.cfg.Nodes {
		n := &t.w.nodes[i]
		if !n.ready || !n.alive || !n.registered || n.record != n.run {
			continue
		}
		now := t.judge(i, t.w.status)
		if protocol.ViolatesSteady(protocol.Verdict{Ready: true, Reason: protocol.Ready}, now) {
			return fmt.Sprintf("the status closes the gate of %s, which serves (%s)", t.name(i), now.Reason)
		}
	}
	return ""
}

// DoneIsDone says: when the status says DONE, all objects are as its bundle has
// them, and no stale write changes them later. Objects that were deleted by
// somebody else do not count.
func DoneIsDone(t *turn) string {
	s := t.w.status
	if s.kind != protocol.StatusPresent || s.state != protocol.Done {
		return ""
	}
	if t.event.wrote && t.event.request.content.content != s.content.content &&
		t.w.objects[t.event.object].form != t.cfg.form(t.event.object, s.content.content) {
		return fmt.Sprintf("object %d was changed by a stale write while the status says DONE", t.event.object+1)
	}
	if !t.event.committed {
		return ""
	}
	for i := range t.cfg.Objects {
		if o := t.w.objects[i]; o.form != 0 && o.form != t.cfg.form(i, s.content.content) {
			return fmt.Sprintf("DONE was written while object %d is not as the bundle has it", i+1)
		}
	}
	return ""
}

// NoFight says: between two changes of content an object is written only to reach
// that content, and no leader decides to take content back while a node of a
// newer release is registered (HoldForNewer).
func NoFight(t *turn) string {
	if t.event.takesBack {
		return "a leader takes newer content back while a newer node is registered"
	}
	if t.event.sent && t.event.sentFight {
		return "a leader works towards other content than the status tells"
	}
	return ""
}
