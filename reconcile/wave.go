package reconcile

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// Wave says when an object is written. The objects of a wave are written side by
// side; a wave begins when the one before it has ended. Removals go the other
// way round.
type Wave int

const (
	// WaveFence has the fence: what comes after it is written behind it.
	WaveFence Wave = iota
	// WaveDefinitions has what others need to exist: namespaces and CRDs. The
	// next wave begins when the kinds that the CRDs bring are served.
	WaveDefinitions
	// WaveObjects has everything else.
	WaveObjects
	// WaveAdmission has policies and webhooks. They come last because they can
	// refuse the others, and their back ends have to be there first.
	WaveAdmission
)

// waves lists them in the order of writing.
func waves() []Wave { return []Wave{WaveFence, WaveDefinitions, WaveObjects, WaveAdmission} }

// waveOf returns the wave of a kind. What is in the fence's does not follow from
// its kind.
func waveOf(gk schema.GroupKind) Wave {
	switch {
	case isDefinition(gk):
		return WaveDefinitions
	case gk.Group == applyset.AdmissionGroup:
		return WaveAdmission
	}
	return WaveObjects
}

// isDefinition reports whether all objects of a namespace or of a kind go with
// an object of this kind.
func isDefinition(gk schema.GroupKind) bool {
	return gk == schema.GroupKind{Kind: "Namespace"} || isCRD(gk)
}

func isCRD(gk schema.GroupKind) bool {
	return gk == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

// holdsData reports whether to delete an object of this kind loses, or may lose,
// what cannot be made again by creating it: a StatefulSet's claims can go with
// it. Such objects are recreated only where the manifest asks for it.
func holdsData(gk schema.GroupKind) bool {
	switch gk {
	case schema.GroupKind{Kind: "PersistentVolume"}, schema.GroupKind{Kind: "PersistentVolumeClaim"},
		schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return true
	}
	return isDefinition(gk)
}
