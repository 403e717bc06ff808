package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// judgeStatus checks OneWriter, GuardHeld, Covers and DoneIsDone for a change of
// the status, in the state before it.
func (j *judging) judgeStatus(e *Event) {
	if e.Foreign {
		return
	}
	if e.Status.Kind != protocol.StatusPresent {
		j.fail(OneWriter, e.Revision, "a sidecar deleted the status or wrote garbage: %s", e.Status)
		return
	}
	j.counts.Statuses++
	now := e.Status.Status
	j.oneWriter(e, now)
	if j.status.Kind == protocol.StatusPresent {
		j.guardHeld(e, j.status.Status, now)
		if now.ContentEpoch < j.status.Status.ContentEpoch {
			j.fail(NoStaleWrite, e.Revision, "the content epoch of the status falls from %d to %d", j.status.Status.ContentEpoch, now.ContentEpoch)
		}
	}
	j.rollsBack(e, now)
	j.coversAfter(e, now)
	if now.State == protocol.Done {
		j.doneIsDone(e, now)
		j.finished(e, now)
	}
}

// oneWriter: the writer's key exists, is the oldest of all, and is the key of the
// epoch.
func (j *judging) oneWriter(e *Event, now protocol.Status) {
	if now.Epoch <= j.h.Restored && e.Seen <= j.h.Settled {
		return // a leadership of the lost history, which may not know yet
	}
	var first candidate
	var mine *candidate
	for _, c := range j.candidates {
		if first.created == 0 || c.created < first.created {
			first = c
		}
		if c.created == now.Epoch {
			mine = &c
		}
	}
	writer, wrote := j.writers[now.Epoch]
	switch {
	case slices.Contains(j.h.Former, now.Epoch) && now.Epoch <= j.h.Restored && e.Seen > j.h.Settled:
		j.fail(OneWriter, e.Revision, "%s wrote in epoch %d, and etcd was restored to revision %d since", now.Leader, now.Epoch, j.h.Restored)
	case mine == nil:
		j.fail(OneWriter, e.Revision, "%s wrote in epoch %d, which has no candidate", now.Leader, now.Epoch)
	case mine.node != string(now.Leader):
		j.fail(OneWriter, e.Revision, "%s wrote in epoch %d, which belongs to %s", now.Leader, now.Epoch, mine.node)
	case first.created < now.Epoch:
		j.fail(OneWriter, e.Revision, "%s wrote in epoch %d while %s leads with epoch %d", now.Leader, now.Epoch, first.node, first.created)
	case now.Epoch < j.epoch:
		j.fail(OneWriter, e.Revision, "epoch %d comes after epoch %d", now.Epoch, j.epoch)
	case wrote && writer != string(now.Leader):
		j.fail(OneWriter, e.Revision, "%s and %s both wrote in epoch %d", writer, now.Leader, now.Epoch)
	}
	if !wrote {
		j.counts.Leaders++
		j.writers[now.Epoch] = string(now.Leader)
	}
	j.epoch = max(j.epoch, now.Epoch)
}

// guardHeld: a restriction shuts out no registered node.
func (j *judging) guardHeld(e *Event, was, now protocol.Status) {
	if !now.Version.Release.Less(was.Version.Release) && !was.MinCompatible.Less(now.MinCompatible) {
		return
	}
	j.counts.Restrictions++
	var shut []string
	for id, r := range j.records {
		switch {
		case j.expired(e, r):
		case r.Corrupt:
			shut = append(shut, id+" (its record is corrupt)")
		case r.mayServe() && admits(was, r) && !admits(now, r):
			shut = append(shut, fmt.Sprintf("%s (release %s, M %s)", id, r.Release, r.M))
		}
	}
	if len(shut) > 0 {
		slices.Sort(shut)
		j.fail(GuardHeld, e.Revision, "from %s to %s while registered: %s", brief(was), brief(now), strings.Join(shut, ", "))
	}
}

func admits(s protocol.Status, r Record) bool {
	return !r.Release.Less(s.MinCompatible) && !s.Version.Release.Less(r.M)
}

// coversAfter checks Covers as it will be after this write of the status.
func (j *judging) coversAfter(e *Event, now protocol.Status) {
	was, known := j.valid, j.known
	j.valid, j.known = now, true // its content decides which objects count
	j.covers(e.Revision)
	j.valid, j.known = was, known
}

// covers: the newest valid status admits no node that present content shuts out.
func (j *judging) covers(revision int64) {
	s := j.valid
	j.present(func(o *object, brought []Bundle) {
		covered := slices.ContainsFunc(brought, func(c Bundle) bool {
			return !c.Release.Less(s.Version.Release) && !s.MinCompatible.Less(c.A)
		})
		if !covered {
			j.fail(Covers, revision, "the status is %s, and %s is in the form %q", brief(s), o.Ref, o.Form)
		}
	})
}

// doneIsDone: all objects are in the form of the bundle, except objects that the soak
// changed since.
func (j *judging) doneIsDone(e *Event, now protocol.Status) {
	forms := j.content(now).Forms
	for _, ref := range slices.Sorted(maps.Keys(forms)) {
		form, o := forms[ref], j.objects[ref]
		switch {
		case o == nil:
			j.fail(DoneIsDone, e.Revision, "DONE of %s, and %s never existed", now.Version, ref)
		case o.touched:
		case o.Gone:
			j.fail(DoneIsDone, e.Revision, "DONE of %s, and %s was deleted", now.Version, ref)
		case o.Form != form:
			j.fail(DoneIsDone, e.Revision, "DONE of %s, and %s is in the form %q, not %q", now.Version, ref, o.Form, form)
			j.violations[len(j.violations)-1].Late = o.late
		}
	}
}

func brief(s protocol.Status) string {
	return fmt.Sprintf("%s %s min %s", s.State, s.Version, s.MinCompatible)
}
