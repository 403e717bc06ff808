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

// Hash stands for all that a manifest says. How it is written does not count.
type Hash [sha256.Size]byte

// HashOf returns the hash of an object. It is over its JSON, in which keys are
// sorted. An error means that it holds something that JSON does not know; what a
// loader made never does.
func HashOf(obj *unstructured.Unstructured) (Hash, error) {
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return Hash{}, fmt.Errorf("hash %s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return sha256.Sum256(data), nil
}

// digest covers what makes a content (protocol.Content): release, constraints,
// and the objects in canonical order. It keeps the hash of each object, which
// others need again.
func (b *Bundle) digest() error {
	h := sha256.New()
	fmt.Fprintf(h, "lockstep bundle 1\n%s\n%s\n%s\n", b.Version.Release, b.Constraints.MinReconciler, b.Constraints.MinApiserver)
	b.hashes = make([]Hash, len(b.Objects))
	for i, obj := range b.Objects {
		var err error
		if b.hashes[i], err = HashOf(obj); err != nil {
			return err
		}
		h.Write(b.hashes[i][:])
	}
	b.Digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return nil
}
