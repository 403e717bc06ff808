package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// judging is a check that is under way: the state after the events so far.
type judging struct {
	h     History
	clock clock
	drain time.Duration

	status     protocol.StatusView // the current one; Kind StatusUnknown before the first
	valid      protocol.Status     // the newest one that could be decoded
	known      bool                // there was one
	records    map[string]Record
	candidates map[string]candidate
	objects    map[string]*object
	writers    map[int64]string // leader by epoch
	epoch      int64            // highest that wrote a status
	lost       map[string]int64 // by node without the controller role: since which revision
	writes     map[string]int64 // by key: the revision of each write of the soak
	turns      []string         // the nodes with one
	safeguards                  // only for the safeguards

	moments    []moment // after each event
	reported   map[string]bool
	violations []Violation
	counts     Counts
}

// candidate is a key of the election, as it was created. The soak may overwrite
// its value later.
type candidate struct {
	node    string
	created int64
}

// object is an object as the sidecars left it, and its history since.
type object struct {
	Object
	touched bool // by the soak, since a sidecar last brought it into a form
	idle    int  // consecutive writes by sidecars that changed nothing
	late    bool // a request of earlier content brought this form, and it is not the content's form
	// deferred: the content was DONE without it, so its removal is deferred. It
	// counts again when it is written, or when a content contains it in this form.
	deferred bool
	// stranded: the soak deleted the parent of the set, and no content with the
	// object was finished since. Lockstep may not know that the object is its own.
	stranded bool
	// changed: a sidecar wrote it last, and it is in no form: an admission changed it.
	changed bool
}

// moment is the state after one event, as far as answers depend on it.
type moment struct {
	revision int64
	conflict map[protocol.Release]conflict // by a node's release
	records  map[string]Record             // shared with other moments: never changed
	turns    []string                      // the nodes with one; never changed, either
}

// conflict is the content that does not fit nodes of a release.
type conflict struct {
	text string // empty: all fits
	late bool   // a request of earlier content brought it
}

func newJudge(h History) *judging {
	j := &judging{
		h: h, clock: newClock(h), drain: cmp.Or(h.DrainTime, DrainTime),
		records: map[string]Record{}, candidates: map[string]candidate{}, objects: map[string]*object{},
		lost: map[string]int64{}, writes: map[string]int64{}, writers: map[int64]string{}, reported: map[string]bool{},
	}
	j.safeguards = newSafeguards()
	return j
}

// content returns the bundle that is the content of a status. A status may lack
// the digest: the bundle of its content epoch, or the first one of the release.
func (j *judging) content(s protocol.Status) Bundle {
	b, found := j.contents[s.ContentEpoch]
	if found && s.Digest == "" && b.Release == s.ContentRelease {
		return b
	}
	b, _ = find(j.h.Bundles, s.ContentRelease, s.Digest)
	return b
}

// find returns the bundle of a release with a digest, or the first one of that
// release.
func find(bundles []Bundle, release protocol.Release, digest string) (Bundle, bool) {
	for _, b := range bundles {
		if b.Release == release && b.Digest == digest {
			return b, true
		}
	}
	i := slices.IndexFunc(bundles, func(b Bundle) bool { return b.Release == release })
	if i < 0 {
		return Bundle{}, false
	}
	return bundles[i], true
}

func (j *judging) fail(invariant string, revision int64, format string, args ...any) {
	j.violations = append(j.violations, Violation{Invariant: invariant, Revision: revision, Text: fmt.Sprintf(format, args...)})
}

// once reports whether this is the first answer of an instance that violates an
// invariant. The following ones are not reported.
func (j *judging) once(invariant string, p Probe) bool {
	name := fmt.Sprintf("%s %s %d", invariant, p.Node, p.Instance)
	first := !j.reported[name]
	j.reported[name] = true
	return first
}

// failLate is fail for a violation that a late request caused.
func (j *judging) failLate(invariant string, revision int64, format string, args ...any) {
	j.fail(invariant, revision, format, args...)
	j.violations[len(j.violations)-1].Late = true
}

// event checks one event and applies it to the state.
func (j *judging) event(e *Event) {
	if e.Revision <= j.h.Restored {
		j.restore(e)
		return
	}
	if len(j.moments) > 0 && j.moments[len(j.moments)-1].revision <= j.h.Restored {
		j.restored()
	}
	if n := len(j.moments); n == 0 || j.moments[n-1].revision != e.Revision {
		j.counts.Revisions++
	}
	j.before(e)
	switch {
	case e.Write != nil:
		j.writes[*e.Write] = e.Revision
	case e.Status != nil:
		j.judgeStatus(e)
		j.leadsByRole(e)
		j.applyStatus(*e.Status)
	case e.Record != nil:
		j.judgeRecord(e)
		j.applyRecord(*e.Record)
		j.noteRole(e)
		j.written[e.Record.Node] = e.Revision
	case e.Presence != nil:
		j.applyPresence(e)
	case e.Candidate != nil:
		j.applyCandidate(e)
	case e.Object != nil:
		j.judgeObject(e)
		j.applyObject(e)
	case e.Mark != nil:
		j.judgeMark(e)
		j.applyMark(e)
	case e.Rollback != nil:
		j.applyRollback(e)
	case e.Turn != nil:
		j.noteTurn(e)
	}
	j.after(e)
	j.moment(e)
}

func (j *judging) applyStatus(v protocol.StatusView) {
	j.status = v
	if v.Kind != protocol.StatusPresent {
		return
	}
	if j.known && v.Status.ContentEpoch != j.valid.ContentEpoch {
		j.counts.Contents++
	}
	j.valid, j.known = v.Status, true
	if b := j.content(v.Status); v.Status.ContentEpoch > 0 {
		j.contents[v.Status.ContentEpoch] = b
	}
	j.deferRemovals()
}

// deferRemovals finds the objects whose removal is deferred
// (docs/protocol-objects.md#removals).
func (j *judging) deferRemovals() {
	forms := j.content(j.valid).Forms
	for ref, o := range j.objects {
		form, wanted := forms[ref]
		switch {
		case !wanted && j.valid.State == protocol.Done:
			o.deferred = true
		case wanted && form == o.Form:
			o.deferred = false
		}
	}
}

func (j *judging) applyRecord(r Record) {
	j.records = maps.Clone(j.records) // moments share the previous map
	if r.Gone {
		delete(j.records, r.Node)
		return
	}
	j.records[r.Node] = r
}

func (j *judging) applyCandidate(e *Event) {
	c := e.Candidate
	_, found := j.candidates[c.Key]
	switch {
	case c.Gone:
		delete(j.candidates, c.Key)
	case !found:
		j.candidates[c.Key] = candidate{node: c.Node, created: cmp.Or(c.Created, e.Revision)}
	}
}

func (j *judging) applyObject(e *Event) {
	now, was := e.Object, j.objects[e.Object.Ref]
	if was == nil {
		was = &object{Object: Object{Ref: now.Ref, Gone: true}}
	}
	next := &object{Object: *now}
	switch {
	case e.Foreign:
		// The judge keeps the last writes of the sidecars.
		next.Form, next.Epoch, next.Release, next.touched = was.Form, was.Epoch, was.Release, true
		next.deferred, next.stranded = was.deferred, was.stranded
	case now.Gone:
		next.Form, next.Epoch, next.Release = was.Form, was.Epoch, was.Release
	case now.Form == "":
		// An intermediate step: it changes the owners of fields, in an object that
		// was edited before.
		next.Form, next.touched, next.idle, next.deferred, next.changed = was.Form, true, was.idle, was.deferred, true
		next.stranded = was.stranded
	case was.like(now):
		next.late, next.deferred = was.late, was.deferred
		if !was.touched {
			next.idle = was.idle + 1
		}
	}
	if !e.Foreign && !now.Gone && now.Form != "" && j.known && !was.like(now) {
		want := j.content(j.valid).Forms[now.Ref]
		next.late = now.Form != want && now.Epoch < j.valid.ContentEpoch
	}
	j.objects[now.Ref] = next
}

// present visits the forms that count: of objects that exist and that belong to
// the content of the status. The removal of all others is deferred
// (docs/protocol-objects.md#removals), also of objects that were left over before this
// content.
func (j *judging) present(visit func(o *object, brought []Bundle)) {
	wanted := j.content(j.valid).Forms
	if !j.known {
		return
	}
	for _, ref := range slices.Sorted(maps.Keys(wanted)) {
		if o := j.objects[ref]; o != nil && !o.Gone && !o.deferred && o.Form != "" {
			visit(o, j.brought(o))
		}
	}
}

// brought returns the bundles that contain an object in its current form.
func (j *judging) brought(o *object) []Bundle {
	var out []Bundle
	for _, b := range j.h.Bundles {
		if b.Forms[o.Ref] == o.Form {
			out = append(out, b)
		}
	}
	return out
}

// moment stores the state after an event. An event that no answer depends on
// shares the conflicts of the previous one.
func (j *judging) moment(e *Event) {
	m := moment{revision: e.Revision, records: j.records, turns: j.turns}
	if n := len(j.moments); n > 0 && e.Object == nil && e.Status == nil {
		m.conflict = j.moments[n-1].conflict
	} else {
		m.conflict = j.conflicts()
	}
	j.moments = append(j.moments, m)
}

// conflicts returns, for each release, content that does not fit its nodes. It is
// Compatible without the gate.
func (j *judging) conflicts() map[protocol.Release]conflict {
	out := map[protocol.Release]conflict{}
	for _, node := range j.h.Bundles {
		j.present(func(o *object, brought []Bundle) {
			fits := slices.ContainsFunc(brought, func(c Bundle) bool {
				return !node.Release.Less(c.A) && !c.Release.Less(node.M)
			})
			if known := out[node.Release]; !fits && (known.text == "" || known.late && !o.late) {
				out[node.Release] = conflict{text: fmt.Sprintf("%s is in the form %q", o.Ref, o.Form), late: o.late}
			}
		})
	}
	return out
}
