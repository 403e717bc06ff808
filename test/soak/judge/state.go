package judge

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// judging is a judgement under way: the world as the events so far made it.
type judging struct {
	h       History
	bundles map[protocol.Release]Bundle

	status     protocol.StatusView // as it is now; Kind StatusUnknown before the first
	valid      protocol.Status     // the newest that could be decoded
	known      bool                // there was one
	records    map[string]Record
	candidates map[string]candidate
	objects    map[string]*object
	writers    map[int64]string // leader by epoch
	epoch      int64            // highest that wrote a status

	moments    []moment // after each event
	said       map[string]bool
	violations []Violation
	counts     Counts
}

// candidate is a key of the election, as it was created. Its later value may be from
// another writer.
type candidate struct {
	node    string
	created int64
}

// object is an object as the sidecars left it, and what was done to it since.
type object struct {
	Object
	touched bool // by who tests, since a sidecar brought it to a form
	idle    int  // writes by sidecars in a row that changed nothing
	late    bool // a request of earlier content brought the form, and it is not that of the content
	// left: the content was DONE without it, so that its removal waits. It counts
	// again when it is written, or when content comes that has it as it is.
	left bool
}

// moment is what answers are held against: the world after one event.
type moment struct {
	revision int64
	conflict map[protocol.Release]conflict // by a node's release
	records  map[string]Record             // shared with other moments: never changed
}

// conflict is what of the content does not fit nodes of a release.
type conflict struct {
	text string // empty: all fits
	late bool   // a request of earlier content brought it
}

func newJudge(h History) *judging {
	j := &judging{
		h: h, bundles: map[protocol.Release]Bundle{},
		records: map[string]Record{}, candidates: map[string]candidate{}, objects: map[string]*object{},
		writers: map[int64]string{}, said: map[string]bool{},
	}
	for _, b := range h.Bundles {
		j.bundles[b.Release] = b
	}
	return j
}

func (j *judging) fail(invariant string, revision int64, format string, args ...any) {
	j.violations = append(j.violations, Violation{Invariant: invariant, Revision: revision, Text: fmt.Sprintf(format, args...)})
}

// once reports whether this is the first answer of an instance that breaks an
// invariant: those that follow are no news.
func (j *judging) once(invariant string, p Probe) bool {
	name := fmt.Sprintf("%s %s %d", invariant, p.Node, p.Instance)
	first := !j.said[name]
	j.said[name] = true
	return first
}

// late is fail for what a request that landed late brought about.
func (j *judging) late(invariant string, revision int64, format string, args ...any) {
	j.fail(invariant, revision, format, args...)
	j.violations[len(j.violations)-1].Late = true
}

// event judges one event and makes it part of the world.
func (j *judging) event(e *Event) {
	if n := len(j.moments); n == 0 || j.moments[n-1].revision != e.Revision {
		j.counts.Revisions++
	}
	switch {
	case e.Status != nil:
		j.judgeStatus(e)
		j.takeStatus(*e.Status)
	case e.Record != nil:
		j.takeRecord(*e.Record)
	case e.Candidate != nil:
		j.takeCandidate(e)
	case e.Object != nil:
		j.judgeObject(e)
		j.takeObject(e)
	}
	j.moment(e)
}

func (j *judging) takeStatus(v protocol.StatusView) {
	j.status = v
	if v.Kind != protocol.StatusPresent {
		return
	}
	if j.known && v.Status.ContentEpoch != j.valid.ContentEpoch {
		j.counts.Contents++
	}
	j.valid, j.known = v.Status, true
	j.leave()
}

// leave finds the objects whose removal waits (docs/protocol.md#removals).
func (j *judging) leave() {
	forms := j.bundles[j.valid.ContentRelease].Forms
	for ref, o := range j.objects {
		form, wanted := forms[ref]
		switch {
		case !wanted && j.valid.State == protocol.Done:
			o.left = true
		case wanted && form == o.Form:
			o.left = false
		}
	}
}

func (j *judging) takeRecord(r Record) {
	j.records = maps.Clone(j.records) // moments have the one before
	if r.Gone {
		delete(j.records, r.Node)
		return
	}
	j.records[r.Node] = r
}

func (j *judging) takeCandidate(e *Event) {
	c := e.Candidate
	_, found := j.candidates[c.Key]
	switch {
	case c.Gone:
		delete(j.candidates, c.Key)
	case !found:
		j.candidates[c.Key] = candidate{node: c.Node, created: e.Revision}
	}
}

func (j *judging) takeObject(e *Event) {
	now, was := e.Object, j.objects[e.Object.Ref]
	if was == nil {
		was = &object{Object: Object{Ref: now.Ref, Gone: true}}
	}
	next := &object{Object: *now}
	switch {
	case e.Foreign:
		// What the sidecars made of it, and when, stays known.
		next.Form, next.Epoch, next.Release, next.touched = was.Form, was.Epoch, was.Release, true
		next.left = was.left
	case now.Gone:
		next.Form, next.Epoch, next.Release = was.Form, was.Epoch, was.Release
	case now.Form == "":
		// A step on the way: the field managers of an object that the soak had
		// changed.
		next.Form, next.touched, next.idle, next.left = was.Form, true, was.idle, was.left
	case was.like(now):
		next.late, next.left = was.late, was.left
		if !was.touched {
			next.idle = was.idle + 1
		}
	}
	if !e.Foreign && !now.Gone && now.Form != "" && j.known && !was.like(now) {
		want := j.bundles[j.valid.ContentRelease].Forms[now.Ref]
		next.late = now.Form != want && now.Epoch < j.valid.ContentEpoch
	}
	j.objects[now.Ref] = next
}

// present visits the forms that count: those of existing objects that the status's
// content has. Other objects wait for their removal (docs/protocol.md#removals), and
// so do those that were left when that content was applied.
func (j *judging) present(visit func(o *object, brought []Bundle)) {
	wanted := j.bundles[j.valid.ContentRelease].Forms
	if !j.known {
		return
	}
	for _, ref := range slices.Sorted(maps.Keys(wanted)) {
		if o := j.objects[ref]; o != nil && !o.Gone && !o.left && o.Form != "" {
			visit(o, j.brought(o))
		}
	}
}

// brought are the bundles that have an object in the form that it has.
func (j *judging) brought(o *object) []Bundle {
	var out []Bundle
	for _, b := range j.h.Bundles {
		if b.Forms[o.Ref] == o.Form {
			out = append(out, b)
		}
	}
	return out
}

// moment notes the world after an event. An event that changes nothing which
// answers are held against shares what the one before has.
func (j *judging) moment(e *Event) {
	m := moment{revision: e.Revision, records: j.records}
	if n := len(j.moments); n > 0 && e.Object == nil && e.Status == nil {
		m.conflict = j.moments[n-1].conflict
	} else {
		m.conflict = j.conflicts()
	}
	j.moments = append(j.moments, m)
}

// conflicts says for each release what content does not fit a node of it. It is
// Compatible, without the gate.
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
