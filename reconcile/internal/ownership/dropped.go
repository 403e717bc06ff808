package ownership

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// WithoutDropped returns after, which a dry run of applying want over live
// returned, as it would be had TakeOver come first: a copy without the fields that
// we set at creation, no longer want, and alone own.
func WithoutDropped(after, want, live *kube.Object) *kube.Object {
	return withoutDropped(metav1.ManagedFieldsOperationUpdate, after, want, live)
}

// Rest returns a copy of live without the fields that we set, no longer want, and alone own.
func Rest(want, live *kube.Object) *kube.Object {
	out := withoutDropped(metav1.ManagedFieldsOperationApply, live.DeepCopy(), want, live)
	return withoutDropped(metav1.ManagedFieldsOperationUpdate, out, want, live)
}

// Overlay returns a copy of have with the values of want. Lists are those of want.
func Overlay(want, have *kube.Object) *kube.Object {
	return &kube.Object{Object: overlay(want.DeepCopy().Object, have.DeepCopy().Object)}
}

// overlay sets the values of want in have, which it changes.
func overlay(want, have map[string]any) map[string]any {
	for name, value := range want {
		w, isMap := value.(map[string]any)
		if h, both := have[name].(map[string]any); isMap && both {
			value = overlay(w, h)
		}
		have[name] = value
	}
	return have
}

// withoutDropped is WithoutDropped for the fields that we set by op.
func withoutDropped(op metav1.ManagedFieldsOperationType, after, want, live *kube.Object) *kube.Object {
	ours := ownFields(live, op)
	if ours == nil {
		return after
	}
	others := map[string]any{}
	for _, e := range live.GetManagedFields() {
		if theirs := decode(e); theirs != nil && e.Manager != kube.FieldManager {
			others = union(others, theirs)
		}
	}
	out := after.DeepCopy()
	if rest, isMap := drop(ours, others, want.Object, out.Object).(map[string]any); isMap {
		out.Object = rest
	}
	return out
}

// drop removes from have the fields of tree that neither want nor others contain. It may change
// have.
func drop(tree, others map[string]any, want, have any) any {
	for _, element := range slices.Sorted(maps.Keys(tree)) {
		value, present := step(element, have)
		if !present { // "." as well
			continue
		}
		next, wanted := step(element, want)
		below, _ := tree[element].(map[string]any)
		theirs, shared := others[element].(map[string]any)
		if wanted || shared {
			have = replace(have, element, value, drop(below, theirs, next, value))
		} else {
			have = replace(have, element, value, nil)
		}
	}
	return have
}

// replace replaces value, the one in have at element, by now; nil removes it.
func replace(have any, element string, value, now any) any {
	switch h := have.(type) {
	case map[string]any:
		name := strings.TrimPrefix(element, "f:")
		if now == nil {
			delete(h, name)
		} else {
			h[name] = now
		}
	case []any:
		i := slices.IndexFunc(h, func(have any) bool { return reflect.DeepEqual(have, value) })
		switch {
		case i >= 0 && now == nil:
			return slices.Delete(h, i, i+1)
		case i >= 0:
			h[i] = now
		}
	}
	return have
}
