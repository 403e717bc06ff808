package reconcile

import (
	"maps"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
)

// What stands for a value of a Secret, as `kubectl diff` has it.
const (
	masked       = "***"
	maskedBefore = "*** (before)"
	maskedAfter  = "*** (after)"
)

// mask hides the contents of a Secret in both of its forms, and shows only
// which of them differ. Either may be nil.
func mask(live, after map[string]any) {
	for _, form := range []map[string]any{live, after} {
		if form == nil {
			continue
		}
		// What kubectl remembers there has the values once more.
		withoutAnnotations(&kube.Object{Object: form}, "kubectl.kubernetes.io/last-applied-configuration")
	}
	for _, field := range []string{"data", "stringData"} {
		was, is := live[field], after[field]
		maskField(live, field, is, maskedBefore)
		maskField(after, field, was, maskedAfter)
	}
}

// maskField hides the values of a field of form, and marks those that are
// otherwise in other.
func maskField(form map[string]any, field string, other any, differs string) {
	value, found := form[field]
	if !found {
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
		if o, both := others[name]; both && !ownership.EqualScalars(v, o) {
			hidden[name] = differs
		}
	}
	form[field] = hidden
}

func withoutAnnotations(obj *kube.Object, names ...string) {
	annotations := obj.GetAnnotations() // a copy
	for _, name := range names {
		delete(annotations, name)
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	obj.SetAnnotations(annotations)
}
