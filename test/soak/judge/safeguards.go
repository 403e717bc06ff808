package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// safeguards is the state that only the safeguards need.
type safeguards struct {
	contents map[int64]Bundle // by content epoch, as the statuses named them
	mark     markState
	term     term
	resigned resignation
	removals map[string]removal // by content: while its removals were due
	due      due
	rollback rollback
	garbage  bool // the soak wrote the current status
	// absent is the revision at which a presence ended, for nodes that lost it, and
	// written the revision of the newest write of a record.
	absent, written map[string]int64
	alive           map[string]bool // nodes with a presence
	overdue         map[string]bool // nodes whose record was reported as overdue
}

// markState is the mark as the sidecars left it.
type markState struct {
	Mark
	exists bool
	// touched: the soak deleted or damaged it, and no sidecar named the content
	// of the status in it since.
	touched bool
	lost    bool // it was touched at some time
}

// term is the leadership of the first candidate.
type term struct {
	epoch    int64 // of the leader; 0: there is no candidate
	revision int64 // at which it became the first
	wrote    bool  // it wrote a status
	// noWait: before its first write, the status showed that the former leaders were
	// drained, or no leader had written anything.
	noWait bool
}

// resignation is a status in which a leader recorded itself as drained.
type resignation struct{ revision, epoch int64 }

// removal is a content whose removals were due.
type removal struct {
	forms map[string]string
	until time.Duration
}

// due is the content whose removals are due now.
type due struct {
	content string // empty: of none
	since   int64  // revision
}

func newSafeguards() safeguards {
	return safeguards{
		contents: map[int64]Bundle{}, removals: map[string]removal{},
		absent: map[string]int64{}, written: map[string]int64{}, alive: map[string]bool{}, overdue: map[string]bool{},
	}
}

// before is called before an event is checked.
func (j *judging) before(e *Event) {
	if r := j.resigned; r.revision != 0 && r.revision != e.Revision {
		j.endedWithItsKey(r)
	}
	j.noteRemovals(e)
	j.checkOverdue(e)
}

// after is called when an event was applied to the state.
func (j *judging) after(e *Event) {
	if e.Status != nil {
		j.garbage = e.Foreign
	}
	if e.Candidate != nil {
		j.newTerm(e)
	}
	wrote := e.Status != nil && !e.Foreign && e.Status.Kind == protocol.StatusPresent
	if wrote && j.drained() {
		j.resigned = resignation{revision: e.Revision, epoch: e.Status.Status.Epoch}
	}
	switch {
	case wrote && e.Status.Status.Epoch == j.term.epoch:
		j.term.wrote = true
	case !j.term.wrote:
		j.term.noWait = j.term.noWait || j.drained() || j.isNew()
	}
	j.noteRemovals(e)
}

// end is called after the last event.
func (j *judging) end() {
	if j.resigned.revision != 0 {
		j.endedWithItsKey(j.resigned)
	}
}

func (j *judging) newTerm(e *Event) {
	var first int64
	for _, c := range j.candidates {
		if first == 0 || c.created < first {
			first = c.created
		}
	}
	if first != j.term.epoch {
		j.term = term{epoch: first, revision: e.Revision}
	}
}

// drained reports whether the status shows that the former leaders are drained.
func (j *judging) drained() bool {
	s := j.status
	return s.Kind == protocol.StatusPresent && s.Status.Epoch != 0 && s.Status.DrainedEpoch == s.Status.Epoch
}

// isNew reports whether nothing exists that a leader wrote.
func (j *judging) isNew() bool {
	if j.status.Kind == protocol.StatusPresent || j.mark.exists {
		return false
	}
	for _, o := range j.objects {
		if !o.Gone && o.Epoch > 0 {
			return false
		}
	}
	return true
}

// finished checks a DONE that ends a change: Waited, Marked, and DoneIsDone for
// objects that the content does not contain.
func (j *judging) finished(e *Event, now protocol.Status) {
	if j.known && j.valid.State == protocol.Done {
		return // the objects were in place before
	}
	j.waited(e, now)
	j.markNamesAlone(e, now)
	j.nothingLeft(e, now)
	j.nothingChanged(e, now)
	if !j.mark.touched {
		j.isKnown(j.content(now))
	}
}

// isKnown notes that Lockstep knows the objects of a bundle as its own.
func (j *judging) isKnown(b Bundle) {
	for ref := range b.Forms {
		if o := j.objects[ref]; o != nil {
			o.stranded = false
		}
	}
}

// waited: DONE comes 13 s after the leader was confirmed, which was after it became
// the first candidate, unless its predecessors were drained. The time is an upper
// bound: from before the one to after the other.
func (j *judging) waited(e *Event, now protocol.Status) {
	if now.Epoch != j.term.epoch || j.term.noWait || now.Epoch <= j.h.Restored {
		return
	}
	took := j.clock.latest(e.Revision) - j.clock.earliest(j.term.revision)
	if took < j.drain {
		j.fail(Waited, e.Revision, "%s of epoch %d wrote %s at most %.3fs after it was elected, and its predecessor had not drained",
			now.Leader, now.Epoch, brief(now), took.Seconds())
	}
}

// markNamesAlone: before DONE, the mark names the content alone.
func (j *judging) markNamesAlone(e *Event, now protocol.Status) {
	m := j.mark
	want := []Entry{{Release: now.ContentRelease, Epoch: now.ContentEpoch}}
	if !m.touched && (!m.exists || !m.FirstDone || !slices.Equal(m.Entries, want)) {
		j.fail(Marked, e.Revision, "%s, and the mark is %s", brief(now), m.String())
	}
}

// nothingChanged: no object is as an admission policy changed it.
func (j *judging) nothingChanged(e *Event, now protocol.Status) {
	for ref := range j.content(now).Forms {
		if o := j.objects[ref]; o != nil && o.changed && !o.Gone {
			j.fail(DoneIsDone, e.Revision, "DONE of %s, and %s is in no form of any bundle since a sidecar wrote it", now.Version, ref)
		}
	}
}

// nothingLeft: where removals were due for longer than the last pass can take,
// or do not wait for nodes (so that DONE waits for them), the content is not DONE with objects
// that it does not contain. A stale leader created such an object again.
func (j *judging) nothingLeft(e *Event, now protocol.Status) {
	b := j.content(now)
	dueFor := j.clock.earliest(e.Revision) - j.clock.latest(j.due.since)
	if j.due.content != contentName(b) || dueFor < j.drain && !b.PruneImmediately {
		return
	}
	for _, ref := range slices.Sorted(maps.Keys(j.objects)) {
		o := j.objects[ref]
		if _, wanted := b.Forms[ref]; wanted || o.Gone || o.touched || o.stranded || o.Form == "" {
			continue
		}
		j.fail(DoneIsDone, e.Revision, "DONE of %s, whose removals were due, and %s of %s exists", now.Version, ref, o.Release)
		j.violations[len(j.violations)-1].Late = o.late
	}
}

// endedWithItsKey: a leader that records itself as drained deletes its key in the
// same transaction.
func (j *judging) endedWithItsKey(r resignation) {
	j.resigned = resignation{}
	for key, c := range j.candidates {
		if c.created == r.epoch {
			j.fail(HasDrained, r.revision, "the leader of epoch %d says that it has drained, and keeps its key %s", r.epoch, key)
		}
	}
}

// writesAfterDrain: while the status shows that the leaders so far are drained,
// no sidecar writes. The next leader first replaces that status.
func (j *judging) writesAfterDrain(e *Event, what string) {
	if j.drained() && !j.garbage {
		j.fail(HasDrained, e.Revision, "%s is written, and the leader of epoch %d said that it has drained", what, j.status.Status.Epoch)
	}
}

// stampedAndMarked checks a write that brings a form: the object carries the stamp of a content
// with that form, which the mark names.
func (j *judging) stampedAndMarked(e *Event, was *object) {
	now := e.Object
	if now.Form == "" || was.like(now) || !was.Gone && was.UID == now.UID && was.Form == now.Form && now.Epoch == 0 {
		return // no form, nothing new, or a damaged stamp that is removed
	}
	if problem := j.stampProblem(now); problem != "" {
		j.fail(Stamped, e.Revision, "%s is written in the form %q %s", now.Ref, now.Form, problem)
		return
	}
	late := j.known && now.Epoch < j.valid.ContentEpoch
	switch {
	case j.mark.touched, late && j.mark.lost: // the judge does not know its entries
	case !j.mark.exists || !slices.Contains(j.mark.Entries, Entry{Release: now.Release, Epoch: now.Epoch}):
		j.fail(Marked, e.Revision, "%s is written for %s at content epoch %d, and the mark is %s", now.Ref, now.Release, now.Epoch, j.mark.String())
	}
}

// stampProblem returns why the stamp of an object is wrong; empty: it is right.
func (j *judging) stampProblem(now *Object) string {
	named, known := j.contents[now.Epoch]
	switch {
	case now.Epoch == 0:
		return "without a stamp"
	case !slices.ContainsFunc(j.h.Bundles, func(b Bundle) bool { return b.Release == now.Release && b.Forms[now.Ref] == now.Form }):
		return fmt.Sprintf("with a stamp of %s, which does not have it in this form", now.Release)
	case known && named.Forms[now.Ref] != now.Form:
		return fmt.Sprintf("with content epoch %d, whose content does not have it in this form", now.Epoch)
	}
	return ""
}

func (j *judging) judgeMark(e *Event) {
	if !e.Foreign {
		j.writesAfterDrain(e, "the mark")
	}
}

func (j *judging) applyMark(e *Event) {
	next := markState{Mark: *e.Mark, exists: !e.Mark.Gone, touched: j.mark.touched, lost: j.mark.lost || e.Foreign}
	switch {
	case e.Foreign:
		next.touched = true
		for _, o := range j.objects {
			o.stranded = true
		}
	case e.Mark.Gone || e.Mark.Damaged:
	case !j.known || slices.Contains(e.Mark.Entries, Entry{Release: j.valid.ContentRelease, Epoch: j.valid.ContentEpoch}):
		next.touched = false
		j.isKnown(j.content(j.valid))
	}
	j.mark = next
}

// removesDue: a content's leader removes objects that the content dropped when no
// controller of an older release is registered. The leader may decide on a past
// state, but not on one that is older than a request can live.
func (j *judging) removesDue(e *Event, was *object) {
	if _, wanted := j.content(j.valid).Forms[was.Ref]; wanted || was.Gone || !j.known {
		return
	}
	for _, r := range j.removals {
		if _, wanted := r.forms[was.Ref]; !wanted && r.until >= e.Seen-2*j.drain {
			return
		}
	}
	j.fail(RemovesDue, e.Revision, "%s of %s is deleted, and its removal was not due: %s", was.Ref, was.Release, j.other(j.content(j.valid)))
}

// noteRemovals notes whether removals are due now.
func (j *judging) noteRemovals(e *Event) {
	if e.Object != nil || e.Mark != nil {
		// These change nothing, but time passes.
		if r, found := j.removals[j.due.content]; found {
			r.until = e.Seen
			j.removals[j.due.content] = r
		}
		return
	}
	b := j.content(j.valid)
	if !j.known || !b.PruneImmediately && j.other(b) != "" {
		j.due = due{}
		return
	}
	if j.due.content != contentName(b) {
		j.due = due{content: contentName(b), since: e.Revision}
	}
	j.removals[contentName(b)] = removal{forms: b.Forms, until: e.Seen}
}

func (j *judging) applyPresence(e *Event) {
	j.alive[e.Presence.Node] = !e.Presence.Gone
	if e.Presence.Gone {
		j.absent[e.Presence.Node] = e.Revision
		return
	}
	delete(j.absent, e.Presence.Node)
}

// expired reports whether a leader may ignore a record: the presence was missing,
// and the record not written, for the time that the record promises
// (docs/protocol-nodes.md#dead-nodes). The time is an upper bound.
func (j *judging) expired(e *Event, r Record) bool {
	since, absent := j.absent[r.Node]
	since = max(since, j.written[r.Node])
	return absent && !r.Corrupt && r.ExpireAfter > 0 && j.clock.latest(e.Revision)-j.clock.earliest(since) >= r.ExpireAfter
}

// other names a controller that removals wait for; empty: there is none.
func (j *judging) other(b Bundle) string {
	for _, id := range slices.Sorted(maps.Keys(j.records)) {
		switch r := j.records[id]; {
		case r.Corrupt:
			return "the record of " + id + " is corrupt"
		case r.mayServe() && r.Release != b.Release:
			return fmt.Sprintf("%s is registered with %s", id, r.Release)
		}
	}
	return ""
}

func contentName(b Bundle) string { return b.Release.String() + " " + b.Digest }

// String is a line of a report.
func (m *Mark) String() string {
	switch {
	case m.Gone:
		return "mark: deleted"
	case m.Damaged:
		return "mark: damaged " + m.Note
	}
	var b strings.Builder
	fmt.Fprintf(&b, "mark: firstDone=%t", m.FirstDone)
	for _, e := range m.Entries {
		fmt.Fprintf(&b, " %s@%d", e.Release, e.Epoch)
	}
	return b.String()
}
