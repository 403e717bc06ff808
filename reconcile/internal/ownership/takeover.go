package ownership

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// TakeOver returns the managedFields of live with the fields of our creation moved
// to our apply, and whether live needs that before want is applied.
//
// A field belongs to a manager and an operation, and a POST is recorded as an Update. An apply
// removes the fields of our last apply that are missing in this one, but it never removes the
// fields of our POST. Without the move, a field that the bundle dropped would stay for ever
// (docs/upstream.md#server-side-apply).
func TakeOver(want, live *kube.Object) ([]metav1.ManagedFieldsEntry, bool) {
	created := ownFields(live, metav1.ManagedFieldsOperationUpdate)
	if created == nil || !exceeds(created, want.Object) {
		return nil, false
	}
	raw, err := json.Marshal(union(created, applied(live)))
	if err != nil {
		return nil, false // it was JSON a moment ago
	}
	var merged metav1.ManagedFieldsEntry
	var others []metav1.ManagedFieldsEntry
	for _, e := range live.GetManagedFields() {
		switch {
		case e.Manager != kube.FieldManager || e.Subresource != "":
			others = append(others, e)
		case e.Operation == metav1.ManagedFieldsOperationUpdate:
			merged = e
		}
	}
	merged.Operation = metav1.ManagedFieldsOperationApply
	merged.FieldsV1 = &metav1.FieldsV1{}
	merged.FieldsV1.SetRawBytes(raw)
	return append(others, merged), true
}

// exceeds reports whether a tree contains a field that is missing in value. In doubt it does:
// to move ownership without need costs a request and does no harm.
func exceeds(tree map[string]any, value any) bool {
	for element, sub := range tree {
		if element == "." {
			continue
		}
		next, exists := step(element, value)
		if !exists {
			return true
		}
		if below, ok := sub.(map[string]any); ok && exceeds(below, next) {
			return true
		}
	}
	return false
}
