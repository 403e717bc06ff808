package plan

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// Wave is when an object is written. The objects of a wave are written concurrently. A wave
// begins when the one before it has ended. Removals go through the waves in reverse order.
type Wave int

const (
	// WaveFence writes the epoch policy: it must protect all later writes, except in the first
	// reconciliation, where there is nothing to protect.
	WaveFence Wave = iota
	// WaveDefinitions writes the namespaces and CRDs that other objects need. The next wave
	// begins when the kinds that the CRDs define are served.
	WaveDefinitions
	// WaveObjects writes everything else.
	WaveObjects
	// WaveAdmission writes policies and webhooks. They come last because they can refuse the
	// others, and because their backends must run first.
	WaveAdmission
)

// Waves returns the waves in the order of writing.
func Waves() []Wave { return []Wave{WaveFence, WaveDefinitions, WaveObjects, WaveAdmission} }

// FirstWaves returns the order in a first reconciliation. The fence comes after the
// objects: the API server would examine each creation.
func FirstWaves() []Wave { return []Wave{WaveDefinitions, WaveObjects, WaveFence, WaveAdmission} }

// waveOf returns the wave of a kind. The objects of WaveFence do not differ by
// their kind.
func waveOf(gk schema.GroupKind) Wave {
	switch {
	case IsDefinition(gk):
		return WaveDefinitions
	case gk.Group == applyset.AdmissionGroup:
		return WaveAdmission
	}
	return WaveObjects
}

// IsDefinition reports whether the deletion of an object of this kind deletes all
// objects of a namespace or of a kind.
func IsDefinition(gk schema.GroupKind) bool {
	switch gk {
	case schema.GroupKind{Kind: "Namespace"}, schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return true
	}
	return false
}

// holdsData reports whether the deletion of an object of this kind can lose data
// that its creation does not bring back. The claims of a StatefulSet can be
// deleted with it. Such objects are recreated only if the manifest asks for it.
func holdsData(gk schema.GroupKind) bool {
	switch gk {
	case schema.GroupKind{Kind: "PersistentVolume"}, schema.GroupKind{Kind: "PersistentVolumeClaim"},
		schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return true
	}
	return IsDefinition(gk)
}
