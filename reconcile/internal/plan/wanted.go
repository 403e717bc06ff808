package plan

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// Wanted is an object of the bundle or of the epoch policy, prepared once for
// each bundle.
type Wanted struct {
	Key      applyset.Key
	ID       applyset.ID
	GVK      schema.GroupVersionKind
	Object   *kube.Object // with the label of the set, without a stamp; never changed
	Form     string       // see bundle.AnnotationForm
	Wave     Wave
	Required bool // its failure keeps the status from becoming DONE
	Recreate bool // it may be deleted and created again where a field is immutable
	Fence    bool // it is of the epoch policy, not of the bundle
}

// Prepare returns the epoch policy and a bundle's objects, ready to be compared
// and applied.
func Prepare(b *bundle.Bundle, s applyset.Set) ([]Wanted, error) {
	fence := s.Fence()
	out := make([]Wanted, 0, len(b.Objects)+len(fence))
	for _, obj := range fence {
		hash, err := bundle.HashOf(obj)
		if err != nil {
			return nil, err
		}
		w := PrepareObject(obj, hash, s)
		w.Fence, w.Wave = true, WaveFence
		out = append(out, w)
	}
	for i, manifest := range b.Objects {
		out = append(out, PrepareObject(manifest, b.Hash(i), s))
	}
	return out, nil
}

// PrepareObject prepares one manifest with the given hash.
func PrepareObject(manifest *kube.Object, hash bundle.Hash, s applyset.Set) Wanted {
	obj := labelled(manifest, s)
	gvk, annotations := obj.GroupVersionKind(), obj.GetAnnotations()
	key := applyset.KeyOf(gvk.GroupKind(), obj)
	return Wanted{
		Key: key, ID: applyset.IDOf(key), GVK: gvk, Object: obj, Form: applyset.FormOf(hash, s),
		Wave:     waveOf(gvk.GroupKind()),
		Required: annotations[bundle.AnnotationRequired] != "false",
		Recreate: mayRecreate(gvk.GroupKind(), annotations),
	}
}

// labelled returns a manifest with the label of the set. It shares everything
// else with the manifest.
func labelled(manifest *kube.Object, s applyset.Set) *kube.Object {
	obj := &kube.Object{Object: maps.Clone(manifest.Object)}
	metadata := cloneField(obj.Object, "metadata")
	labels := cloneField(metadata, "labels")
	labels[bundle.LabelPartOf] = s.ID()
	metadata["labels"], obj.Object["metadata"] = labels, metadata
	return obj
}

// cloneField returns a copy of the map in a field, or an empty one.
func cloneField(in map[string]any, field string) map[string]any {
	have, _ := in[field].(map[string]any)
	if have == nil {
		return map[string]any{}
	}
	return maps.Clone(have)
}

func mayRecreate(gk schema.GroupKind, annotations map[string]string) bool {
	if holdsData(gk) {
		return annotations[bundle.AnnotationRecreate] == "enabled"
	}
	return annotations[bundle.AnnotationRecreate] != "disabled"
}

// Stamped returns the object with the stamp s, ready to be sent to r. Only its metadata may be
// changed: it shares the rest with w.
func (w Wanted) Stamped(s applyset.Stamp, r kube.Resource) *kube.Object {
	out := &kube.Object{Object: maps.Clone(w.Object.Object)}
	out.Object["metadata"] = cloneField(out.Object, "metadata")
	if r.HasStatus {
		delete(out.Object, "status") // a write of the object does not change it
	}
	s.Put(out, w.Form)
	return out
}

// StampedOver is Stamped for an object that replaces live.
func (w Wanted) StampedOver(live *kube.Object, s applyset.Stamp, r kube.Resource) *kube.Object {
	out := w.Stamped(s, r)
	if w.Fence {
		out = out.DeepCopy()
		applyset.KeepExclusions(out, live)
	}
	return out
}

// hasForm reports whether live carries a complete stamp and the form of w, and
// is not being deleted.
func (w Wanted) hasForm(live *kube.Object) bool {
	_, has := w.stampIn(live)
	return has
}

// stampIn returns the stamp of live, and what hasForm reports.
func (w Wanted) stampIn(live *kube.Object) (s applyset.Stamp, hasForm bool) {
	if live == nil || live.GetDeletionTimestamp() != nil {
		return applyset.Stamp{}, false
	}
	s, complete := applyset.ReadStamp(live)
	return s, complete && kube.Annotation(live, bundle.AnnotationForm) == w.Form
}

// MembersOf returns the objects of the set: the wanted ones, and the inventory's.
func MembersOf(objects []Wanted, inventory applyset.Inventory) applyset.Members {
	out := applyset.Members{Wanted: make(map[applyset.Key]bool, len(objects)), Inventory: inventory}
	for _, w := range objects {
		out.Wanted[w.Key] = true
	}
	return out
}

// InventoryOf returns the inventory of the wanted objects alone.
func InventoryOf(objects []Wanted) applyset.Inventory {
	ids := make([]applyset.ID, len(objects))
	for i, w := range objects {
		ids[i] = w.ID
	}
	return applyset.NewInventory(ids)
}

// KindsOf returns the kinds of objects, each once, in the order of the objects.
func KindsOf(objects []Wanted) []schema.GroupVersionKind {
	seen := map[schema.GroupVersionKind]bool{}
	var out []schema.GroupVersionKind
	for _, w := range objects {
		if !seen[w.GVK] {
			seen[w.GVK] = true
			out = append(out, w.GVK)
		}
	}
	return out
}
