package ownership

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/sorting"
)

// Change lists the fields of ours that another manager changed.
type Change struct {
	Manager string   // empty: unknown
	Fields  []string // that we no longer own, like ".data.x"; sorted, the first few
}

// maxFields bounds Change.Fields. A few are enough to recognize the conflict.
const maxFields = 5

// ChangeSince returns who changed which of our fields between own, an earlier Own of the
// object, and now. The manager that took one of the fields is more certain than the one that
// wrote last: a removed field is without an owner. A deletion, a nil now, leaves no trace.
func ChangeSince(own string, now *kube.Object) Change {
	if now == nil {
		return Change{}
	}
	lost := pathsOf(own)
	for path := range pathsOf(Own(now)) {
		delete(lost, path)
	}
	out := Change{Fields: slices.Sorted(maps.Keys(lost))}
	out.Fields = out.Fields[:min(len(out.Fields), maxFields)]
	others := slices.DeleteFunc(now.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == kube.FieldManager || e.Subresource == "status"
	})
	out.Manager = writerOf(others, lost)
	return out
}

// LabelledBy returns the manager that set a label, of the writers of an object.
func LabelledBy(entries []metav1.ManagedFieldsEntry, label string) string {
	return writerOf(entries, map[string]bool{".metadata.labels." + label: true})
}

// AnnotatedBy returns the manager that set an annotation of an object.
func AnnotatedBy(live *kube.Object, annotation string) string {
	return writerOf(live.GetManagedFields(), map[string]bool{".metadata.annotations." + annotation: true})
}

// writerOf returns the manager that wrote one of the paths last. If none of them is recorded,
// it is the manager that wrote anything last; empty: there is none.
func writerOf(entries []metav1.ManagedFieldsEntry, paths map[string]bool) string {
	if len(entries) == 0 {
		return ""
	}
	sorted := slices.Clone(entries)
	sorting.By(sorted, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Compare(writtenAt(b), writtenAt(a))
	})
	if i := slices.IndexFunc(sorted, func(e metav1.ManagedFieldsEntry) bool { return hasAny(e, paths) }); i >= 0 {
		return sorted[i].Manager
	}
	return sorted[0].Manager
}

func writtenAt(e metav1.ManagedFieldsEntry) int64 {
	if e.Time == nil {
		return 0
	}
	return e.Time.Unix()
}

// hasAny reports whether an entry contains one of the paths.
func hasAny(e metav1.ManagedFieldsEntry, paths map[string]bool) bool {
	fields := decode(e)
	if fields == nil {
		return false
	}
	have := map[string]bool{}
	leaves(fields, "", have)
	for path := range paths {
		if have[path] {
			return true
		}
	}
	return false
}

// pathsOf returns the fields in a result of Own.
func pathsOf(own string) map[string]bool {
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
