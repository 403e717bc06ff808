package reconcile

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// parent is the set's parent object as it was read.
type parent struct {
	obj     *kube.Object // nil: it is not there
	record  record       // only where known
	known   bool         // the record was there and could be decoded
	problem string       // why it could not be decoded
	kinds   []schema.GroupKind
	// recorded: kinds are those that were written. Otherwise they are lost.
	recorded   bool
	namespaces []string // other than the parent's own
}

// contents are those that the parent tells.
func (p parent) contents() contents { return contents{kinds: p.kinds, namespaces: p.namespaces} }

// contents is what the annotations of the parent say of the set (KEP-3659).
type contents struct {
	kinds      []schema.GroupKind
	namespaces []string // other than the parent's own
}

func decodeParent(obj *kube.Object) parent {
	kinds, recorded := obj.GetAnnotations()[bundle.AnnotationGroupKinds]
	out := parent{
		obj: obj, kinds: parseKinds(kinds), recorded: recorded,
		namespaces: parseNames(obj.GetAnnotations()[bundle.AnnotationNamespaces]),
	}
	data, found, err := unstructured.NestedString(obj.Object, "data", markKey)
	if err != nil || !found {
		out.problem = "the parent has no " + markKey
		return out
	}
	if out.record, err = decodeMark(data); err != nil {
		out.problem = err.Error()
		return out
	}
	out.known = true
	return out
}

// parseKinds reads "ConfigMap,Deployment.apps". People can edit it: what makes
// no sense is passed over.
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

// with returns the object that the parent has to become. What others wrote on
// it stays.
func (p parent) with(s set, r record, c contents) (*kube.Object, error) {
	obj := &kube.Object{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	if p.obj != nil {
		obj = p.obj.DeepCopy()
	}
	obj.SetName(s.name)
	obj.SetNamespace(s.namespace)
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[bundle.LabelSetID] = s.id()
	annotations[bundle.AnnotationTooling] = tooling
	annotations[bundle.AnnotationGroupKinds] = formatKinds(c.kinds)
	annotations[bundle.AnnotationNamespaces] = strings.Join(slices.Compact(slices.Sorted(slices.Values(c.namespaces))), ",")
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
	data, err := encodeMark(r)
	if err != nil {
		return nil, err
	}
	if _, isMap := obj.Object["data"].(map[string]any); !isMap {
		obj.Object["data"] = map[string]any{}
	}
	return obj, unstructured.SetNestedField(obj.Object, data, "data", markKey)
}

// stands reports whether the parent says all that want says, whoever wrote it.
func (p parent) stands(want *kube.Object, r record) bool {
	return p.obj != nil && p.known && p.record.sameContent(r) && sameSet(p.obj, want)
}

// sameSet reports whether two parents say the same of the set, but for the mark.
func sameSet(a, b *kube.Object) bool {
	have, wanted := a.GetAnnotations(), b.GetAnnotations()
	for _, name := range []string{bundle.AnnotationTooling, bundle.AnnotationGroupKinds, bundle.AnnotationNamespaces} {
		if have[name] != wanted[name] {
			return false
		}
	}
	return a.GetLabels()[bundle.LabelSetID] == b.GetLabels()[bundle.LabelSetID]
}

// sameVersion reports whether a and b were read from the same object, unchanged.
func sameVersion(a, b parent) bool {
	if a.obj == nil || b.obj == nil {
		return a.obj == nil && b.obj == nil
	}
	return a.obj.GetUID() == b.obj.GetUID() && a.obj.GetResourceVersion() == b.obj.GetResourceVersion()
}

// sameMark reports whether the parent bears the very mark of want.
func sameMark(p parent, want *kube.Object) bool {
	have, _, _ := unstructured.NestedString(p.obj.Object, "data", markKey)
	wanted, _, _ := unstructured.NestedString(want.Object, "data", markKey)
	return have == wanted
}
