// Package ownership reads metadata.managedFields, the API server's record of which manager set
// which field: the fields that this program owns, the fields that it must own before an apply,
// and the changes of other managers. It is pure: no requests, no clocks, no goroutines.
//
// All of it errs on the safe side. If a record cannot be read, an object is not
// ours to delete, and it is not in place, so that an apply decides.
package ownership

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// ownEntry returns our entry of an operation in the managedFields of live.
// Entries of subresources do not count.
func ownEntry(live *kube.Object, op metav1.ManagedFieldsOperationType) (metav1.ManagedFieldsEntry, bool) {
	for _, e := range live.GetManagedFields() {
		if e.Manager == kube.FieldManager && e.Operation == op && e.Subresource == "" {
			return e, true
		}
	}
	return metav1.ManagedFieldsEntry{}, false
}

// applied returns the fields that we own by server-side apply; nil if there are none, or if
// they cannot be read.
func applied(live *kube.Object) *set {
	entry, exists := ownEntry(live, metav1.ManagedFieldsOperationApply)
	if !exists {
		return nil
	}
	return decode(entry)
}

// MadeByUs reports whether we wrote the stamp on live. Only the API server writes
// managedFields, so copies are without it: controllers and people copy labels and annotations
// to other objects, which are never ours to delete.
func MadeByUs(live *kube.Object) bool {
	for _, op := range []metav1.ManagedFieldsOperationType{metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate} {
		entry, exists := ownEntry(live, op)
		if exists && decode(entry).child("metadata").child("annotations").child(bundle.AnnotationContentEpoch).exists() {
			return true
		}
	}
	return false
}

// Own prints our entries of the managedFields of live, to be compared with a
// later Own of the same object. While the two are equal, no field that we set was
// changed since; the entries' times are part of it. It works on metadata alone,
// as a watch delivers it, and decodes no other entry.
func Own(live *kube.Object) string {
	all, _, _ := unstructured.NestedFieldNoCopy(live.Object, "metadata", "managedFields")
	entries, _ := all.([]any)
	var own []any
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if entry["manager"] == kube.FieldManager && entry["subresource"] == nil {
			own = append(own, entry)
		}
	}
	data, err := json.Marshal(own)
	if err != nil {
		return "" // it was JSON a moment ago; "" equals no record, so an apply decides
	}
	return string(data)
}
