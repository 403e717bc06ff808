package judge

import "slices"

// restore applies a key that etcd contained when it was restored.
func (j *judging) restore(e *Event) {
	switch {
	case e.Status != nil:
		j.applyStatus(*e.Status)
	case e.Record != nil:
		j.applyRecord(*e.Record)
		j.written[e.Record.Node] = e.Revision
	case e.Presence != nil:
		j.applyPresence(e)
	case e.Candidate != nil:
		j.applyCandidate(e)
	case e.Object != nil:
		// As a sidecar left it: the restored etcd does not show who wrote it.
		j.applyObject(&Event{Revision: e.Revision, Seen: e.Seen, Object: e.Object})
	case e.Rollback != nil:
		j.applyRollback(e)
	case e.Mark != nil:
		j.applyMark(&Event{Revision: e.Revision, Seen: e.Seen, Mark: e.Mark})
	}
	j.after(&Event{Revision: e.Revision, Seen: e.Seen, Foreign: true, Status: e.Status, Candidate: e.Candidate})
	j.moment(e)
}

// restored is called after the last event that a restored etcd began with. That etcd
// does not show which removals were deferred, and which objects Lockstep knew:
// objects that are not covered must be from before.
func (j *judging) restored() {
	s := j.valid
	j.deferRemovals()
	// Leaders count from the restore on.
	for id := range j.records {
		if !j.alive[id] {
			j.absent[id] = j.h.Restored
		}
	}
	j.present(func(o *object, brought []Bundle) {
		o.deferred = !slices.ContainsFunc(brought, func(c Bundle) bool {
			return !c.Release.Less(s.Version.Release) && !s.MinCompatible.Less(c.A)
		})
	})
	wanted := j.content(s).Forms
	for ref, o := range j.objects {
		if _, found := wanted[ref]; !found {
			o.deferred = true // it may have been DONE with that
		}
		o.stranded = true
	}
}
