package judge

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// This file checks the records of nodes that come and go
// (docs/protocol-nodes.md#ephemeral).

// forgetting is how long one leader may take to delete an ephemeral record that
// expired for it. Faults delay it, as they delay everything.
const forgetting = time.Minute

// judgeRecord checks a deletion of an ephemeral record: its own sidecar ends its
// presence with it, or the record expired before. The soak removes records like people do.
func (j *judging) judgeRecord(e *Event) {
	was, found := j.records[e.Record.Node]
	if !e.Record.Gone || e.Foreign || !found || !was.Ephemeral {
		return
	}
	left := j.endsPresence(e)
	switch {
	case !was.Corrupt && (!was.Controller || was.Member):
		j.fail(Awaited, e.Revision, "the record of %s is deleted, and its roles are not those of a controller alone", was.Node)
	case !left && !j.expired(e, was):
		j.fail(Awaited, e.Revision, "the record of %s is deleted, and it has neither left nor expired", was.Node)
	}
}

// endsPresence reports whether the transaction of an event also deletes the presence of
// its node.
func (j *judging) endsPresence(e *Event) bool {
	return slices.ContainsFunc(j.revision(e.Revision), func(other Event) bool {
		return other.Presence != nil && other.Presence.Gone && other.Presence.Node == e.Record.Node
	})
}

// revision returns the events of a revision.
func (j *judging) revision(r int64) []Event {
	by := func(e Event, r int64) int { return cmp.Compare(e.Revision, r) }
	from, _ := slices.BinarySearchFunc(j.h.Events, r, by)
	to, _ := slices.BinarySearchFunc(j.h.Events, r+1, by)
	return j.h.Events[from:to]
}

// checkOverdue: no ephemeral record stays for long after it expired for a leader. The
// time is a lower bound.
func (j *judging) checkOverdue(e *Event) {
	for _, id := range slices.Sorted(maps.Keys(j.absent)) {
		r, found := j.records[id]
		if !found || !r.Ephemeral || r.Corrupt || !r.Controller || r.Member || j.overdue[id] || j.term.epoch == 0 {
			continue
		}
		since := max(j.absent[id], j.written[id], j.term.revision)
		if took := j.clock.earliest(e.Revision) - j.clock.latest(since); took > r.ExpireAfter+forgetting {
			j.overdue[id] = true
			j.fail(Awaited, e.Revision, "%s has had no presence for %.0fs of one leader, and its ephemeral record still exists", id, took.Seconds())
		}
	}
}
