package applyset

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

func TestReadStamp(t *testing.T) {
	annotated := func(annotations map[string]string) *kube.Object {
		obj := &kube.Object{Object: map[string]any{}}
		obj.SetAnnotations(annotations)
		return obj
	}
	good := annotated(map[string]string{bundle.AnnotationContentEpoch: "5", bundle.AnnotationRelease: "1.2.3", bundle.AnnotationMinAPIServerRelease: "1.0.0"})
	if s, ok := ReadStamp(good); !ok || s != (Stamp{Epoch: 5, Release: release(1, 2, 3), MinAPI: release(1, 0, 0)}) {
		t.Errorf("got %+v, %t", s, ok)
	}
	for _, epoch := range []string{"", "0", "-1", "1.5", "9007199254740993", "99999999999999999999", "five", "0x5"} {
		if n, ok := ParseEpoch(epoch); ok {
			t.Errorf("epoch %q: got %d, want it to be garbage", epoch, n)
		}
	}
	if s, ok := ReadStamp(annotated(map[string]string{bundle.AnnotationContentEpoch: "5", bundle.AnnotationRelease: "1.2"})); ok || s.Epoch != 5 {
		t.Errorf("got %+v, %t, want half a stamp", s, ok)
	}
}

// A manifest may not set what the stamp
// consists of, so the two lists have to agree.
func TestStamp_writesReservedAnnotationsOnly(t *testing.T) {
	obj := &kube.Object{Object: map[string]any{}}
	Stamp{Epoch: 1}.Put(obj, "FORM")
	var written []string
	for name := range obj.GetAnnotations() {
		written = append(written, name)
	}
	slices.Sort(written)
	if want := slices.Sorted(slices.Values(bundle.StampAnnotations())); !slices.Equal(written, want) {
		t.Errorf("got %v, want %v", written, want)
	}
}
