package reconcile

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// TestStampWritesReservedAnnotationsOnly: a manifest may not set what the stamp
// consists of, so the two lists have to agree.
func TestStampWritesReservedAnnotationsOnly(t *testing.T) {
	obj := &kube.Object{Object: map[string]any{}}
	stamp{epoch: 1}.put(obj, "FORM")
	var written []string
	for name := range obj.GetAnnotations() {
		written = append(written, name)
	}
	slices.Sort(written)
	if want := slices.Sorted(slices.Values(bundle.StampAnnotations())); !slices.Equal(written, want) {
		t.Errorf("got %v, want %v", written, want)
	}
}
