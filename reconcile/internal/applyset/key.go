package applyset

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/sorting"
)

// Key names an object, in whatever version it is written.
type Key struct {
	schema.GroupKind
	Namespace, Name string
}

// KeyOf returns the key of obj, which is of the kind gk.
func KeyOf(gk schema.GroupKind, obj *kube.Object) Key {
	return Key{GroupKind: gk, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// String returns `ClusterRole "x"` or `ConfigMap "ns/x"`.
func (k Key) String() string {
	name := k.Name
	if k.Namespace != "" {
		name = k.Namespace + "/" + k.Name
	}
	return fmt.Sprintf("%s %q", k.Kind, name)
}

// Compare orders keys by group, kind, namespace and name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Group, o.Group), cmp.Compare(k.Kind, o.Kind),
		cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// SortedKeys returns the keys of a map in the order of Key.Compare.
func SortedKeys[V any](m map[Key]V) []Key {
	out := make([]Key, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sorting.By(out, Key.Compare)
	return out
}
