// Package bundle reads bundles. A bundle is a directory of manifests with a bundle.yaml: the
// objects that one release of a platform wants in the Kubernetes API (docs/bundles.md). The
// package owns the loader, the digest, the built-in bundle, and the names of all labels and
// annotations. Package reconcile applies bundles. This package starts no goroutine.
//
// Loading is strict and total. It reports all problems at once, each with file,
// line and document, before anything is written to a cluster.
package bundle

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lockstep-dev/lockstep/internal/strict"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Bundle contains the objects that one release wants. It is never changed after it was loaded: to edit an
// object, copy it first.
type Bundle struct {
	Name        string
	Version     protocol.Version // `release:` of bundle.yaml
	Constraints protocol.Constraints
	// APIServer is the version of kube-apiserver that the bundle is for, like 1.36 or 1.36.2
	// (`apiserverVersion:`); empty: any (docs/protocol-nodes.md#apiserver-version).
	APIServer string
	// PruneImmediately: removals do not wait until no controller of another release is
	// registered (prunePolicy: Immediately; docs/protocol-objects.md#removals).
	PruneImmediately bool
	// Objects are in canonical order: by group, kind, namespace and name. None of them contains
	// a field that only the server sets.
	Objects []*unstructured.Unstructured
	// Digest is "sha256:" and 64 hex digits, over release, constraints and
	// objects. In which file a manifest is, and how it is formatted, does not
	// count.
	Digest string

	hashes  []Hash         // of the objects
	sources []strict.Place // of the objects; nil: the bundle was not made by Load
	paths   []string       // of the directories and files that were read; nil: the built-in bundle
}

// Source returns where the manifest of Objects[i] is, like "roles.yaml:15"; empty:
// unknown.
func (b *Bundle) Source(i int) string {
	if i >= len(b.sources) {
		return ""
	}
	return b.sources[i].String()
}

// Paths returns the directories and files that were read; none: it is the built-in bundle.
func (b *Bundle) Paths() []string { return b.paths }

// Hash returns the hash of Objects[i]; see HashOf.
func (b *Bundle) Hash(i int) Hash { return b.hashes[i] }
