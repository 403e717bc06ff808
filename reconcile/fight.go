package reconcile

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

const (
	// fightRepairs of one object within fightWindow are a fight.
	fightRepairs = 5
	fightWindow  = time.Minute
	// fightOver is how long an object has to stay as it is for a fight to end.
	fightOver = 5 * time.Minute
	// The pause between two repairs in a fight doubles from the one to the other.
	minFightPause = time.Second
	maxFightPause = 30 * time.Second
	// maxFightFields bounds how many fields of a fight are told.
	maxFightFields = 5
)

// quarrel counts the repairs of one object.
type quarrel struct {
	times   []time.Time   // of the repairs within fightWindow
	since   time.Time     // of the first
	count   int           // since then
	pause   time.Duration // between two repairs; 0: it is no fight yet
	culprit culprit
}

// culprit is who changed an object last, and what.
type culprit struct {
	manager string
	fields  []string
}

// repaired notes a repair, and reports whether it made a fight of it.
func (q *quarrel) repaired(now time.Time, by culprit) (begun bool) {
	q.times = slices.DeleteFunc(q.times, func(at time.Time) bool { return now.Sub(at) > fightWindow })
	if len(q.times) == 0 && q.pause == 0 {
		*q = quarrel{since: now}
	}
	q.times = append(q.times, now)
	q.count++
	if by.manager != "" || q.culprit.manager == "" {
		q.culprit = by
	}
	if q.pause > 0 || len(q.times) >= fightRepairs {
		begun = q.pause == 0
		q.pause = min(max(2*q.pause, minFightPause), maxFightPause)
	}
	return begun
}

// last is when the object was last repaired.
func (q *quarrel) last() time.Time {
	if len(q.times) == 0 {
		return q.since
	}
	return q.times[len(q.times)-1]
}

// notBefore is when the object may be repaired again.
func (q *quarrel) notBefore() time.Time { return q.last().Add(q.pause) }

// quarrels are those of a set. They belong to whoever has the turn.
type quarrels map[applyset.Key]*quarrel

func (qs quarrels) of(k applyset.Key) *quarrel {
	q, found := qs[k]
	if !found {
		q = &quarrel{}
		qs[k] = q
	}
	return q
}

// notBefore is when an object may be repaired again; zero: at once.
func (qs quarrels) notBefore(k applyset.Key) time.Time {
	if q, found := qs[k]; found {
		return q.notBefore()
	}
	return time.Time{}
}

// contested reports whether an object is in a fight.
func (qs quarrels) contested(k applyset.Key) bool {
	q, found := qs[k]
	return found && q.pause > 0
}

// settle forgets what is over, and returns when there may be more of it; zero:
// never.
func (qs quarrels) settle(now time.Time) (next time.Time) {
	for k, q := range qs {
		over := q.last().Add(fightOver)
		if !now.Before(over) {
			delete(qs, k)
			continue
		}
		if next.IsZero() || over.Before(next) {
			next = over
		}
	}
	return next
}

// fights returns those that are fights, by object.
func (qs quarrels) fights() []report.Fight {
	var out []report.Fight
	for _, k := range applyset.SortedKeys(qs) {
		if q := qs[k]; q.pause > 0 {
			out = append(out, report.Fight{
				Object: k.String(), Manager: q.culprit.manager, Fields: q.culprit.fields, Repairs: q.count, Since: q.since,
			})
		}
	}
	return out
}

// blame finds who took which of our fields, from what managedFields said before
// (held.own) and say now. A deletion leaves no trace.
func blame(own string, now *kube.Object) culprit {
	if now == nil {
		return culprit{}
	}
	lost := ourPaths(own)
	for path := range ourPaths(ownEntries(now)) {
		delete(lost, path)
	}
	out := culprit{fields: slices.Sorted(maps.Keys(lost))}
	out.fields = out.fields[:min(len(out.fields), maxFightFields)]
	others := slices.DeleteFunc(now.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == kube.FieldManager || e.Subresource == "status"
	})
	slices.SortStableFunc(others, func(a, b metav1.ManagedFieldsEntry) int { return cmp.Compare(wrote(b), wrote(a)) })
	if len(others) == 0 {
		return out
	}
	out.manager = others[0].Manager // the newest; but who took a field is surer
	if i := slices.IndexFunc(others, func(e metav1.ManagedFieldsEntry) bool { return takes(e, lost) }); i >= 0 {
		out.manager = others[i].Manager
	}
	return out
}

func wrote(e metav1.ManagedFieldsEntry) int64 {
	if e.Time == nil {
		return 0
	}
	return e.Time.Unix()
}

// takes reports whether an entry has one of the paths.
func takes(e metav1.ManagedFieldsEntry, lost map[string]bool) bool {
	set := decodeFields(e)
	if set == nil {
		return false
	}
	have := map[string]bool{}
	leaves(set.tree, "", have)
	for path := range lost {
		if have[path] {
			return true
		}
	}
	return false
}

// ourPaths returns the fields of what ownEntries printed.
func ourPaths(own string) map[string]bool {
	var entries []struct {
		FieldsV1 map[string]any `json:"fieldsV1"`
	}
	out := map[string]bool{}
	if json.Unmarshal([]byte(own), &entries) != nil {
		return out
	}
	for _, e := range entries {
		leaves(e.FieldsV1, "", out)
	}
	return out
}

// leaves adds the paths of a field set in a form for people: `.data.x`,
// `.spec.ports[{"port":80}].name`.
func leaves(tree map[string]any, path string, out map[string]bool) {
	if len(tree) == 0 {
		out[path] = true
		return
	}
	for name, sub := range tree {
		below, _ := sub.(map[string]any)
		kind, rest, _ := strings.Cut(name, ":")
		switch kind {
		case "f":
			leaves(below, path+"."+rest, out)
		case "k", "v", "i":
			leaves(below, path+"["+rest+"]", out)
		}
	}
}
