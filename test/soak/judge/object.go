package judge

import (
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// idleWrites is how often an object may be written without a change. A creation
// that the server normalized is followed by an apply. An apply over fields of
// another manager is followed by one that takes them over. The next leader may
// repeat each of them.
const idleWrites = 4

// judgeObject checks NoStaleWrite, NoFight, DoneIsDone and Covers for a write of an
// object, in the state before it.
func (j *judging) judgeObject(e *Event) {
	if e.Foreign {
		j.counts.Affected++
		return
	}
	if !slices.ContainsFunc(j.h.Bundles, func(b Bundle) bool { return b.Forms[e.Object.Ref] != "" }) {
		j.fail(LeftAlone, e.Revision, "a sidecar wrote or deleted %s, which no bundle has", e.Object.Ref)
		return
	}
	j.counts.ObjectWrites++
	was := j.objects[e.Object.Ref]
	if was == nil {
		was = &object{Object: Object{Ref: e.Object.Ref, Gone: true}}
	}
	j.writesAfterDrain(e, e.Object.Ref)
	if e.Object.Gone {
		j.judgeDeletion(e, was)
		j.removesDue(e, was)
		return
	}
	j.noStaleWrite(e, was)
	j.stampedAndMarked(e, was)
	if e.Object.Form == "" || !j.known {
		return // an intermediate step, or the first reconciliation
	}
	j.noFight(e, was)
	j.coversWith(e)
}

// noStaleWrite: the content epoch of an object never falls, and one content epoch
// is of one content.
func (j *judging) noStaleWrite(e *Event, was *object) {
	now := e.Object
	switch {
	case was.Gone || was.UID != now.UID || was.Epoch == 0:
	case now.Epoch < was.Epoch && was.touched && now.Epoch == 0:
		// The soak damaged the stamp, and this is an intermediate step.
	case now.Epoch < was.Epoch:
		j.failLate(NoStaleWrite, e.Revision, "%s has content epoch %d and is written with %d", now.Ref, was.Epoch, now.Epoch)
	case now.Epoch == was.Epoch && now.Release != was.Release:
		j.fail(NoStaleWrite, e.Revision, "%s of %s is written as of %s, both with content epoch %d", now.Ref, was.Release, now.Release, now.Epoch)
	}
}

// noFight: a write brings the form of the content. A write that changes neither
// form nor stamp prepares another one: an object is taken over before it is
// created again.
func (j *judging) noFight(e *Event, was *object) {
	now := e.Object
	if was.like(now) {
		if !was.touched && was.idle >= idleWrites {
			j.fail(NoFight, e.Revision, "%s is written for the %dth time without a change", now.Ref, was.idle+2)
		}
		return
	}
	if now.Form == j.content(j.valid).Forms[now.Ref] {
		return
	}
	if now.Epoch < j.valid.ContentEpoch {
		j.counts.LateWrites++
	} else {
		j.fail(NoFight, e.Revision, "%s is written in the form %q of content epoch %d, and the content is %s of content epoch %d",
			now.Ref, now.Form, now.Epoch, j.valid.ContentRelease, j.valid.ContentEpoch)
	}
	if j.valid.State == protocol.Done {
		j.failLate(DoneIsDone, e.Revision, "%s is written in the form %q while the status is %s", now.Ref, now.Form, brief(j.valid))
	}
}

// like reports whether a write leaves an object as it was.
func (o *object) like(now *Object) bool {
	return !o.Gone && o.UID == now.UID && o.Form == now.Form && o.Epoch == now.Epoch
}

// coversWith checks Covers as it will be after this write.
func (j *judging) coversWith(e *Event) {
	was := j.objects[e.Object.Ref]
	j.objects[e.Object.Ref] = &object{Object: *e.Object}
	before := len(j.violations)
	if j.status.Kind == protocol.StatusPresent {
		j.covers(e.Revision)
	}
	// If several objects are not covered, only this one is new.
	j.violations = keep(j.violations, before, e.Object.Ref)
	for i := before; i < len(j.violations); i++ {
		j.violations[i].Late = e.Object.Epoch < j.valid.ContentEpoch
	}
	if was == nil {
		delete(j.objects, e.Object.Ref)
		return
	}
	j.objects[e.Object.Ref] = was
}

// judgeDeletion: no sidecar deletes an object that is in the form of the content. An object
// with an immutable field is deleted in its old form.
func (j *judging) judgeDeletion(e *Event, was *object) {
	if !j.known || was.Gone || was.touched {
		return
	}
	if want, wanted := j.content(j.valid).Forms[e.Object.Ref]; wanted && want == was.Form {
		j.failLate(NoStaleWrite, e.Revision, "%s is deleted, and is in the form of the content %s", e.Object.Ref, j.valid.ContentRelease)
	}
}
