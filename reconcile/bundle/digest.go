package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/internal/strict"
)

// canonical sorts objects by group, kind, namespace and name, so that the digest
// depends on neither file names nor the order in a file.
func canonical(objects []object) (sortedObjects []*unstructured.Unstructured, sources []strict.Place) {
	sorted := slices.Clone(objects)
	sorting.By(sorted, func(a, b object) int { return a.key.Compare(b.key) })
	sortedObjects, sources = make([]*unstructured.Unstructured, len(sorted)), make([]strict.Place, len(sorted))
	for i, o := range sorted {
		sortedObjects[i], sources[i] = o.obj, o.at
	}
	return sortedObjects, sources
}

// Hash identifies the content of a manifest. Its formatting does not count.
type Hash [sha256.Size]byte

// HashOf returns the hash of an object's JSON, in which keys are sorted. It fails if the object
// contains a value that JSON cannot express; objects of Load do not.
func HashOf(obj *unstructured.Unstructured) (Hash, error) {
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return Hash{}, fmt.Errorf("hash %s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return sha256.Sum256(data), nil
}

// digest sets Digest and hashes. The digest covers the parts of a protocol.Content: release,
// constraints, and the objects in canonical order.
func (b *Bundle) digest() error {
	h := sha256.New()
	fmt.Fprintf(h, "lockstep bundle 1\n%s\n%s\n%s\n", b.Version.Release, b.Constraints.MinReconciler, b.Constraints.MinAPIServer)
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
