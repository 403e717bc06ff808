package judge

import "github.com/lockstep-dev/lockstep/protocol"

// rollback is the release that people want back, and the revision since which they do; 0: there is none.
type rollback struct {
	to    protocol.Release
	since int64
}

func (j *judging) applyRollback(e *Event) {
	switch {
	case e.Rollback.Gone:
		j.rollback = rollback{}
	case j.rollback.since == 0:
		j.rollback = rollback{to: e.Rollback.To, since: e.Revision}
	}
}

// rollsBack: a leader that was elected in a rollback brings no content except the content of its
// release. A leader from before the rollback may decide before it knows.
func (j *judging) rollsBack(e *Event, now protocol.Status) {
	r := j.rollback
	if r.since == 0 || now.Epoch < r.since || now.Epoch <= j.h.Restored || !j.known || now.ContentEpoch == j.valid.ContentEpoch {
		return
	}
	if now.ContentRelease != r.to {
		j.fail(RollsBack, e.Revision, "%s of epoch %d brings the content of %s, and since revision %d people roll back to %s",
			now.Leader, now.Epoch, now.ContentRelease, r.since, r.to)
	}
}
