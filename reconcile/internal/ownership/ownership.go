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

// ownFields returns the fields that we set by an operation, as live contains them: they must not be changed.
// They are nil if there are none, or if they cannot be read. The entries of other writers are not decoded: a
// repair asks this twice.
func ownFields(live *kube.Object, op metav1.ManagedFieldsOperationType) set {
	for _, entry := range ownEntries(live) {
		if tree, isMap := entry["fieldsV1"].(map[string]any); isMap && entry["operation"] == string(op) {
			return tree
		}
	}
	return nil
}

// ownEntries returns our entries of the managedFields of live, without subresources.
func ownEntries(live *kube.Object) (own []map[string]any) {
	all, _, _ := unstructured.NestedFieldNoCopy(live.Object, "metadata", "managedFields")
	entries, _ := all.([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		if entry["manager"] == kube.FieldManager && entry["subresource"] == nil {
			own = append(own, entry)
		}
	}
	return own
}

// applied returns the fields that we own by server-side apply; nil if there are none, or if
// they cannot be read.
func applied(live *kube.Object) set {
	return ownFields(live, metav1.ManagedFieldsOperationApply)
}

// MadeByUs reports whether we wrote the stamp on live. Only the API server writes
// managedFields, so copies are without it: controllers and people copy labels and annotations
// to other objects, which are never ours to delete.
func MadeByUs(live *kube.Object) bool {
	for _, op := range []metav1.ManagedFieldsOperationType{metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate} {
		if ownFields(live, op).child("metadata").child("annotations").child(bundle.AnnotationContentEpoch) != nil {
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
	data, err := json.Marshal(ownEntries(live))
	if err != nil {
		return "" // it was JSON a moment ago; "" equals no record, so an apply decides
	}
	return string(data)
}
