package ownership

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// Change is what another manager changed of our fields.
type Change struct {
	Manager string   // empty: unknown
	Fields  []string // that we no longer own, like ".data.x"; sorted, the first few
}

// maxFields bounds Change.Fields. A few show what it is about.
const maxFields = 5

// ChangeSince returns who changed which of our fields between own, an earlier Own
// of the object, and now. The manager that took one of the fields is more certain
// than the one that wrote last: a field that was removed has no owner. A deletion,
// a nil now, leaves no trace.
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
	if len(others) == 0 {
		return out
	}
	slices.SortStableFunc(others, func(a, b metav1.ManagedFieldsEntry) int { return cmp.Compare(writtenAt(b), writtenAt(a)) })
	out.Manager = others[0].Manager
	if i := slices.IndexFunc(others, func(e metav1.ManagedFieldsEntry) bool { return hasAny(e, lost) }); i >= 0 {
		out.Manager = others[i].Manager
	}
	return out
}

func writtenAt(e metav1.ManagedFieldsEntry) int64 {
	if e.Time == nil {
		return 0
	}
	return e.Time.Unix()
}

// hasAny reports whether an entry has one of the paths.
func hasAny(e metav1.ManagedFieldsEntry, paths map[string]bool) bool {
	fields := decode(e)
	if fields == nil {
		return false
	}
	have := map[string]bool{}
	leaves(fields.tree, "", have)
	for path := range paths {
		if have[path] {
			return true
		}
	}
	return false
}

// pathsOf returns the fields of what Own printed.
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
