package applyset

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// Parent is the set's parent object as it was read. The zero Parent: there is
// none.
type Parent struct {
	Object     *kube.Object // nil: it does not exist
	ParentData              // the mark only where Known, and the inventory only where it is not damaged
	Known      bool         // the mark was there and could be decoded
	// Recorded: the parent carries the annotation that lists its kinds. Otherwise the kinds of
	// the set are lost.
	Recorded bool
	Bundle   string // the name of the bundle of the newest content; empty: none yet
}

// ParentData is our part of the parent.
type ParentData struct {
	Mark      MarkData
	Contents  Contents
	Inventory Inventory // objects that it does not list count as strangers, and are never removed
	Store     string    // the ID of the store that the set belongs to; empty: none yet, or the parent's stays as it is
}

// bundleKey is the key of the bundle's name in the parent's data.
const bundleKey = "bundle"

// Contents are the lists in the annotations of the parent (KEP-3659).
type Contents struct {
	Kinds      []schema.GroupKind
	Namespaces []string // other than the parent's own
}

// DecodeParent decodes a parent that exists. A mark that cannot be decoded leaves
// Known false.
func DecodeParent(obj *kube.Object) Parent {
	annotations := obj.GetAnnotations()
	kinds, recorded := annotations[bundle.AnnotationGroupKinds]
	out := Parent{
		Object: obj, Recorded: recorded, Bundle: protocol.KnownBundleName(encoded(obj, bundleKey)),
		ParentData: ParentData{
			Contents: Contents{Kinds: parseKinds(kinds), Namespaces: parseNames(annotations[bundle.AnnotationNamespaces])},
			Store:    annotations[bundle.AnnotationStore],
		},
	}
	mark, err := decodeMark(encoded(obj, markKey))
	if err == nil {
		out.Mark, out.Known = mark.named(out.Bundle), true
	}
	if inventory, err := decodeInventory(encoded(obj, inventoryKey)); err == nil {
		out.Inventory = inventory
	}
	return out
}

// encoded returns the value of a key of the parent's data; empty: there is none.
func encoded(obj *kube.Object, key string) string {
	data, _, _ := unstructured.NestedString(obj.Object, "data", key)
	return data
}

// parseKinds reads "ConfigMap,Deployment.apps". Users can edit the annotation, so
// parts that make no sense are ignored.
func parseKinds(s string) []schema.GroupKind {
	var out []schema.GroupKind
	for part := range strings.SplitSeq(s, ",") {
		gk := schema.ParseGroupKind(strings.TrimSpace(part))
		if gk.Kind != "" && gk.Kind != "List" {
			out = append(out, gk)
		}
	}
	return out
}

// parseNames reads "a,b".
func parseNames(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(name string) bool { return name == "" })
}

func formatKinds(kinds []schema.GroupKind) string {
	names := map[string]bool{}
	for _, gk := range kinds {
		names[gk.String()] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ",")
}

// With returns the parent's object with d. It keeps the fields and annotations that other
// writers put on the parent, and the fields of its mark that this program does not know.
func (p Parent) With(s Set, d ParentData) (*kube.Object, error) {
	obj := &kube.Object{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	if p.Object != nil {
		obj = p.Object.DeepCopy()
	}
	obj.SetName(s.Name)
	obj.SetNamespace(s.Namespace)
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[bundle.LabelSetID] = s.ID()
	annotations[bundle.AnnotationTooling] = tooling
	annotations[bundle.AnnotationGroupKinds] = formatKinds(d.Contents.Kinds)
	annotations[bundle.AnnotationNamespaces] = strings.Join(slices.Compact(slices.Sorted(slices.Values(d.Contents.Namespaces))), ",")
	if d.Store != "" {
		annotations[bundle.AnnotationStore] = d.Store
	}
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
	previous := ""
	if p.Known {
		previous = encoded(obj, markKey)
	}
	mark, err := encodeMark(previous, d.Mark)
	if err != nil {
		return nil, err
	}
	data, _ := obj.Object["data"].(map[string]any)
	data = maps.Clone(data)
	if data == nil {
		data = map[string]any{}
	}
	data[markKey], data[inventoryKey] = mark, d.Inventory.encode()
	if name := d.Mark.Mark(0).Bundle(); name != "" {
		data[bundleKey] = name
	}
	obj.Object["data"] = data
	return obj, nil
}

// Matches reports whether the parent already contains the content of mark m, and the inventory
// and annotations of want, whichever leader wrote it.
func (p Parent) Matches(want *kube.Object, m MarkData) bool {
	return p.Object != nil && p.Known && p.Mark.SameContent(m) && sameSet(p.Object, want)
}

// Equals reports whether the data and the annotations of the parent are equal to want's, byte
// by byte, as after a write of want.
func (p Parent) Equals(want *kube.Object) bool {
	return p.Object != nil && p.Known && encoded(p.Object, markKey) == encoded(want, markKey) && sameSet(p.Object, want)
}

// sameSet reports whether two parents are equal except for the mark.
func sameSet(a, b *kube.Object) bool {
	have, want := a.GetAnnotations(), b.GetAnnotations()
	for _, name := range []string{
		bundle.AnnotationTooling, bundle.AnnotationGroupKinds, bundle.AnnotationNamespaces, bundle.AnnotationStore,
	} {
		if have[name] != want[name] {
			return false
		}
	}
	return a.GetLabels()[bundle.LabelSetID] == b.GetLabels()[bundle.LabelSetID] &&
		encoded(a, inventoryKey) == encoded(b, inventoryKey) && encoded(a, bundleKey) == encoded(b, bundleKey)
}

// WithoutMark returns a parent as it is created: without mark, inventory and kinds.
func WithoutMark(want *kube.Object) *kube.Object {
	out := want.DeepCopy()
	delete(out.Object, "data")
	annotations := out.GetAnnotations() // a copy
	delete(annotations, bundle.AnnotationGroupKinds)
	delete(annotations, bundle.AnnotationNamespaces)
	out.SetAnnotations(annotations)
	return out
}

// For returns the parent as a pass over w takes it: a mark whose content epoch is too far above
// the status's is damaged (docs/protocol.md#content-epoch). garbage says so, for people; empty:
// it is not.
func (p Parent) For(w protocol.Work) (out Parent, garbage string) {
	if highest := p.Mark.HighestEpoch(); p.Known && w.MarkTooHigh(highest) {
		p.Mark, p.Known = MarkData{}, false
		return p, protocol.GarbageEpoch(w.Content.Epoch, highest)
	}
	return p, ""
}

// ForeignTo reports whether the set belongs to another store (docs/protocol-objects.md#stores).
func (p Parent) ForeignTo(store string) bool { return p.Store != "" && p.Store != store }

// SameVersion reports whether p and o were read from the same, unchanged object.
func (p Parent) SameVersion(o Parent) bool {
	if p.Object == nil || o.Object == nil {
		return p.Object == nil && o.Object == nil
	}
	return p.Object.GetUID() == o.Object.GetUID() && p.Object.GetResourceVersion() == o.Object.GetResourceVersion()
}

// NeedsStamps reports whether the mark can be rebuilt from stamps alone: the parent carries
// none, and there is no status.
func (p Parent) NeedsStamps(stamps []Stamp, work protocol.Work) bool {
	return !p.Known && work.FallbackEntry == (protocol.Content{}) && len(stamps) > 0
}

// Effective returns the mark of the parent. Where the parent was deleted or damaged, the mark is
// rebuilt: from the status's content, which is all that can be present, or if there is no status,
// from the stamps on the objects.
func (p Parent) Effective(stamps []Stamp, work protocol.Work) MarkData {
	switch {
	case p.Known:
		return p.Mark
	case work.FallbackEntry != (protocol.Content{}):
		return MarkData{FirstDone: true, Entries: []protocol.Content{work.FallbackEntry}}.named(p.Bundle)
	}
	return fromStamps(stamps).named(p.Bundle)
}
