package applyset

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// Key names an object, in whatever version it is written.
type Key = bundle.Key

// KeyOf returns the key of obj, which is of the kind gk.
func KeyOf(gk schema.GroupKind, obj *kube.Object) Key {
	return Key{GroupKind: gk, Namespace: obj.GetNamespace(), Name: obj.GetName()}
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
