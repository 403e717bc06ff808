package judge

import "github.com/lockstep-dev/lockstep/protocol"

// idleWrites is how often an object may be written without being changed. A
// creation that the server normalized is followed by an apply. An apply over another
// writer's fields is followed by one that takes ownership of them. The next leader
// may repeat each.
const idleWrites = 4

// judgeObject holds a write of an object to NoStaleWrite, NoFight, DoneIsDone
// and Covers, in the world as it was before.
func (j *judging) judgeObject(e *Event) {
	if e.Foreign {
		j.counts.Affected++
		return
	}
	j.counts.ObjectWrites++
	was := j.objects[e.Object.Ref]
	if was == nil {
		was = &object{Object: Object{Ref: e.Object.Ref, Gone: true}}
	}
	if e.Object.Gone {
		j.judgeDeletion(e, was)
		return
	}
	j.noStaleWrite(e, was)
	if e.Object.Form == "" || !j.known {
		return // a step on the way, or the first reconciliation
	}
	j.noFight(e, was)
	j.coversWith(e)
}

// noStaleWrite wants the content epoch of an object never to go down, and that
// of one epoch to be of one content.
func (j *judging) noStaleWrite(e *Event, was *object) {
	now := e.Object
	switch {
	case was.Gone || was.UID != now.UID || was.Epoch == 0:
	case now.Epoch < was.Epoch && was.touched && now.Epoch == 0:
		// Who tests has damaged the stamp, and this is a step on the way.
	case now.Epoch < was.Epoch:
		j.late(NoStaleWrite, e.Revision, "%s has content epoch %d and is written with %d", now.Ref, was.Epoch, now.Epoch)
	case now.Epoch == was.Epoch && now.Release != was.Release:
		j.fail(NoStaleWrite, e.Revision, "%s of %s is written as of %s, both with content epoch %d", now.Ref, was.Release, now.Release, now.Epoch)
	}
}

// noFight wants a write to bring the form that the content has. One that changes
// neither form nor stamp prepares another: before an object is recreated, the leader
// takes ownership of its fields.
func (j *judging) noFight(e *Event, was *object) {
	now := e.Object
	if was.like(now) {
		if !was.touched && was.idle >= idleWrites {
			j.fail(NoFight, e.Revision, "%s is written for the %dth time without a change", now.Ref, was.idle+2)
		}
		return
	}
	if now.Form == j.bundles[j.valid.ContentRelease].Forms[now.Ref] {
		return
	}
	if now.Epoch < j.valid.ContentEpoch {
		j.counts.LateWrites++
	} else {
		j.fail(NoFight, e.Revision, "%s is written in the form %q of content epoch %d, and the content is %s of content epoch %d",
			now.Ref, now.Form, now.Epoch, j.valid.ContentRelease, j.valid.ContentEpoch)
	}
	if j.valid.State == protocol.Done {
		j.late(DoneIsDone, e.Revision, "%s is written in the form %q while the status is %s", now.Ref, now.Form, brief(j.valid))
	}
}

// like reports whether a write leaves an object as it was.
func (o *object) like(now *Object) bool {
	return !o.Gone && o.UID == now.UID && o.Form == now.Form && o.Epoch == now.Epoch
}

// coversWith judges Covers as it will be with this write.
func (j *judging) coversWith(e *Event) {
	was := j.objects[e.Object.Ref]
	j.objects[e.Object.Ref] = &object{Object: *e.Object}
	before := len(j.violations)
	if j.status.Kind == protocol.StatusPresent {
		j.covers(e.Revision)
	}
	// Of many objects that are not covered only this one is news.
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

// judgeDeletion wants nothing to be deleted that the content has as it is. An
// object whose field is immutable is deleted in its old form.
func (j *judging) judgeDeletion(e *Event, was *object) {
	if !j.known || was.Gone || was.touched {
		return
	}
	if want, wanted := j.bundles[j.valid.ContentRelease].Forms[e.Object.Ref]; wanted && want == was.Form {
		j.late(NoStaleWrite, e.Revision, "%s is deleted, and is as the content %s has it", e.Object.Ref, j.valid.ContentRelease)
	}
}
