package reconcile

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// fields is a node of a field set in the form of managedFields: "f:name" for a
// field, "k:{...}" and "v:..." for items of lists, "." for the node itself. A nil
// *fields is an empty set.
type fields struct {
	tree map[string]any
}

// child returns the set below a field, and nil where the field is not in it.
func (f *fields) child(name string) *fields {
	if f == nil {
		return nil
	}
	sub, ok := f.tree["f:"+name].(map[string]any)
	if !ok {
		return nil
	}
	return &fields{tree: sub}
}

// here reports whether the node itself is in the set.
func (f *fields) here() bool { return f != nil }

// ownEntry finds our entry of an operation in live's managedFields.
func ownEntry(live *kube.Object, op metav1.ManagedFieldsOperationType) (metav1.ManagedFieldsEntry, bool) {
	for _, e := range live.GetManagedFields() {
		if e.Manager == kube.FieldManager && e.Operation == op && e.Subresource == "" {
			return e, true
		}
	}
	return metav1.ManagedFieldsEntry{}, false
}

// appliedFields returns what we own by server-side apply; nil if nothing, or if
// it cannot be read.
func appliedFields(live *kube.Object) *fields {
	entry, found := ownEntry(live, metav1.ManagedFieldsOperationApply)
	if !found {
		return nil
	}
	return decodeFields(entry)
}

func decodeFields(entry metav1.ManagedFieldsEntry) *fields {
	if entry.FieldsV1 == nil {
		return nil
	}
	var tree map[string]any
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &tree); err != nil {
		return nil // the server wrote it; without it we are merely in doubt
	}
	return &fields{tree: tree}
}

// madeByUs reports whether we wrote the stamp on live. The API server keeps
// that record, so it tells our objects from copies: controllers and people copy
// labels and annotations to other objects, and those are never ours to delete.
func madeByUs(live *kube.Object) bool {
	for _, op := range []metav1.ManagedFieldsOperationType{metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate} {
		entry, found := ownEntry(live, op)
		if !found {
			continue
		}
		if decodeFields(entry).child("metadata").child("annotations").child(bundle.AnnotationContentEpoch).here() {
			return true
		}
	}
	return false
}

// takeOver returns live's managedFields with what we own by creation (a POST is
// recorded as an Update) moved to what we own by apply, and whether that is
// needed before want is applied.
//
// Why: fields belong to managers by operation. An apply takes away what the last
// apply had and this one has not, but never what the POST had. Without the move,
// a field that the bundle dropped would live on for ever (DESIGN 6.4).
func takeOver(want, live *kube.Object) ([]metav1.ManagedFieldsEntry, bool) {
	created, found := ownEntry(live, metav1.ManagedFieldsOperationUpdate)
	if !found {
		return nil, false
	}
	set := decodeFields(created)
	if set == nil || !exceeds(set.tree, want.Object) {
		return nil, false
	}
	tree := set.tree
	if applied := appliedFields(live); applied != nil {
		tree = union(tree, applied.tree)
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, false // it was JSON a moment ago
	}
	merged := created
	merged.Operation = metav1.ManagedFieldsOperationApply
	merged.FieldsV1 = &metav1.FieldsV1{}
	merged.FieldsV1.SetRawBytes(raw)
	others := slices.DeleteFunc(slices.Clone(live.GetManagedFields()), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == kube.FieldManager && e.Subresource == ""
	})
	return append(others, merged), true
}

// exceeds reports whether the set has a field that value lacks. In doubt it
// does: to move ownership without need costs a request and does no harm.
func exceeds(set map[string]any, value any) bool {
	for path, sub := range set {
		if path == "." {
			continue
		}
		next, found := step(path, value)
		if !found {
			return true
		}
		if below, ok := sub.(map[string]any); ok && exceeds(below, next) {
			return true
		}
	}
	return false
}

// step follows one element of a path into value.
func step(path string, value any) (any, bool) {
	kind, rest, _ := strings.Cut(path, ":")
	switch kind {
	case "f":
		m, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		next, found := m[rest]
		return next, found
	case "k", "v":
		return item(kind, rest, value)
	}
	return nil, false
}

// item finds the item of a list by its key fields, or by its value.
func item(kind, rest string, value any) (any, bool) {
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}
	var want any
	if json.Unmarshal([]byte(rest), &want) != nil {
		return nil, false
	}
	for _, have := range list {
		keyed := kind == "k" && matches(want, have, nil)
		if keyed || kind == "v" && sameScalar(want, have) {
			return have, true
		}
	}
	return nil, false
}

// union merges two field sets.
func union(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for k, v := range b {
		below, isMap := v.(map[string]any)
		have, both := out[k].(map[string]any)
		if isMap && both {
			out[k] = union(have, below)
		} else {
			out[k] = v
		}
	}
	return out
}
