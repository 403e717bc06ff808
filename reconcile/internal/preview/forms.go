package preview

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
)

// withForms returns o with its forms before and after, as users may see them. nil:
// the object does not exist.
func withForms(o report.Previewed, r kube.Resource, before, after *kube.Object) report.Previewed {
	o.Live, o.Wanted = shown(before, r), shown(after, r)
	if o.Kind == "Secret" && o.Group == "" {
		mask(o.Live, o.Wanted)
	}
	return o
}

// shown returns an object without the fields that the server and Lockstep set by themselves.
func shown(obj *kube.Object, r kube.Resource) map[string]any {
	if obj == nil {
		return nil
	}
	out := &kube.Object{Object: runtime.DeepCopyJSON(obj.Object)}
	if r.HasStatus {
		delete(out.Object, "status")
	}
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
		delete(out.Object["metadata"].(map[string]any), field)
	}
	removeAnnotations(out, bundle.StampAnnotations()...)
	return out.Object
}

// The replacements of a Secret's values, as in `kubectl diff`.
const (
	masked       = "***"
	maskedBefore = "*** (before)"
	maskedAfter  = "*** (after)"
)

// mask hides the contents of a Secret in both of its forms, and shows only which
// of them differ. Either form may be nil.
func mask(before, after map[string]any) {
	for _, form := range []map[string]any{before, after} {
		if form == nil {
			continue
		}
		// kubectl repeats the values there.
		removeAnnotations(&kube.Object{Object: form}, "kubectl.kubernetes.io/last-applied-configuration")
	}
	for _, field := range []string{"data", "stringData"} {
		was, is := before[field], after[field]
		maskField(before, field, is, maskedBefore)
		maskField(after, field, was, maskedAfter)
	}
}

// maskField hides the values of a field of form, and marks those that differ from
// other.
func maskField(form map[string]any, field string, other any, marker string) {
	value, exists := form[field]
	if !exists {
		return
	}
	values, isMap := value.(map[string]any)
	if !isMap {
		form[field] = masked
		return
	}
	others, _ := other.(map[string]any)
	hidden := maps.Clone(values)
	for name, v := range values {
		hidden[name] = masked
		if o, both := others[name]; both && !kube.EqualScalars(v, o) {
			hidden[name] = marker
		}
	}
	form[field] = hidden
}

func removeAnnotations(obj *kube.Object, names ...string) {
	annotations := obj.GetAnnotations() // a copy
	for _, name := range names {
		delete(annotations, name)
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	obj.SetAnnotations(annotations)
}
