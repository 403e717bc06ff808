// Package bundle reads bundles: directories of manifests with a bundle.yaml,
// which say what one release of a platform wants in the Kubernetes API (DESIGN
// 6.1). It owns the loader, the digest and the built-in bundle, and leaves to
// package reconcile what is done with them. It starts no goroutine.
//
// Loading is strict and total: whatever is wrong is told at once, each problem
// with file, line and document, before anything is written to a cluster.
package bundle

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Bundle is what one release wants. It is never changed after it was loaded:
// whoever wants to edit an object copies it first.
type Bundle struct {
	Name        string
	Version     protocol.Version // `release:` of bundle.yaml
	Constraints protocol.Constraints
	// PruneImmediately: removals do not wait until no older controller is
	// registered (prunePolicy: Immediately; DESIGN 6.3).
	PruneImmediately bool
	// Objects are in canonical order: by group, kind, namespace and name. None
	// of them has a field that only the server sets.
	Objects []*unstructured.Unstructured
	// Digest is "sha256:" and 64 hex digits, over release, constraints and
	// objects; where a manifest stands, and how it is written, does not count.
	Digest string

	hashes []Hash // of the objects; nil: it was not loaded but made by hand
}

// Hash returns the hash of Objects[i]; see HashOf.
func (b *Bundle) Hash(i int) (Hash, error) {
	if b.hashes == nil {
		return HashOf(b.Objects[i])
	}
	return b.hashes[i], nil
}
