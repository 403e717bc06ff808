package bundle

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// canonical orders objects so that the same bundle always reads the same.
func canonical(objects []object) []*unstructured.Unstructured {
	sorted := slices.SortedFunc(slices.Values(objects), func(a, b object) int {
		return cmp.Or(
			cmp.Compare(a.key.group, b.key.group),
			cmp.Compare(a.key.kind, b.key.kind),
			cmp.Compare(a.key.namespace, b.key.namespace),
			cmp.Compare(a.key.name, b.key.name),
		)
	})
	out := make([]*unstructured.Unstructured, len(sorted))
	for i, o := range sorted {
		out[i] = o.obj
	}
	return out
}

// digest covers what makes a content (protocol.Content): release, constraints,
// and the objects in canonical order. encoding/json sorts the keys of maps, and
// ends each value with a newline, so that no two contents read the same.
func digest(b *Bundle) string {
	h := sha256.New()
	fmt.Fprintf(h, "lockstep bundle 1\n%s\n%s\n%s\n", b.Version.Release, b.Constraints.MinReconciler, b.Constraints.MinApiserver)
	e := json.NewEncoder(h)
	for _, o := range b.Objects {
		if err := e.Encode(o.Object); err != nil {
			// The loader makes nothing but maps, slices, strings, bools, int64
			// and finite floats, and a hash takes every byte.
			panic(fmt.Sprintf("bundle: encode %s %q: %v", o.GetKind(), o.GetName(), err))
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
