package reconcile

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// withoutDropped is after without the fields that live has from our creation,
// that want lacks, and that nobody else owns: what an apply takes away once it
// owns them (takeOver).
func withoutDropped(after, want, live *kube.Object) *kube.Object {
	created, found := ownEntry(live, metav1.ManagedFieldsOperationUpdate)
	set := decodeFields(created)
	if !found || set == nil {
		return after
	}
	others := map[string]any{}
	for _, e := range live.GetManagedFields() {
		if theirs := decodeFields(e); theirs != nil && e.Manager != kube.FieldManager {
			others = union(others, theirs.tree)
		}
	}
	out := after.DeepCopy()
	if dropped, ok := drop(set.tree, others, want.Object, out.Object).(map[string]any); ok {
		out.Object = dropped
	}
	return out
}

// drop takes out of have what set has, and neither want nor others have. It may
// change have.
func drop(set, others map[string]any, want, have any) any {
	for _, path := range slices.Sorted(maps.Keys(set)) {
		value, present := step(path, have)
		if !present { // "." as well
			continue
		}
		next, wanted := step(path, want)
		below, _ := set[path].(map[string]any)
		theirs, shared := others[path].(map[string]any)
		if wanted || shared {
			have = replace(have, path, value, drop(below, theirs, next, value))
		} else {
			have = replace(have, path, value, nil)
		}
	}
	return have
}

// replace puts now in the place of value, which have has at path; nil takes it
// out.
func replace(have any, path string, value, now any) any {
	switch h := have.(type) {
	case map[string]any:
		name := strings.TrimPrefix(path, "f:")
		if now == nil {
			delete(h, name)
		} else {
			h[name] = now
		}
	case []any:
		i := slices.IndexFunc(h, func(item any) bool { return reflect.DeepEqual(item, value) })
		switch {
		case i >= 0 && now == nil:
			return slices.Delete(h, i, i+1)
		case i >= 0:
			h[i] = now
		}
	}
	return have
}
