package reconcile

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
)

// removal is an object of the set that the bundle lacks.
type removal struct {
	key      applyset.Key
	resource kube.Resource
	live     *kube.Object
}

// pruneSet is what may go, and why nothing may.
type pruneSet struct {
	removals []removal // in the order of deletion
	held     string    // the brake that is on; empty: none
}

// pruneInput is what the set is decided from.
type pruneInput struct {
	wanted    []wanted
	kinds     kindTable // of the bundle, and those recorded on the parent
	live      map[schema.GroupVersionKind]map[applyset.Key]*kube.Object
	allowMass bool
}

// massFloor is the size of a set up to which any part of it may be removed.
const massFloor = 10

// makePruneSet decides what the bundle dropped (DESIGN 6.3). It is pure.
func makePruneSet(in pruneInput) pruneSet {
	keep, fence := map[applyset.Key]bool{}, map[applyset.Key]bool{}
	for _, w := range in.wanted {
		keep[w.key] = true
		fence[w.key] = fence[w.key] || w.fence
	}
	var out pruneSet
	members, seen := 0, map[types.UID]bool{}
	for _, gvk := range sortedKinds(in.kinds) {
		for k, live := range in.live[gvk] {
			if fence[k] { // the brakes count what the bundle has
				continue
			}
			if seen[live.GetUID()] || !keep[k] && !isMember(live) { // what is wanted is ours
				continue
			}
			seen[live.GetUID()] = true
			members++
			if !keep[k] && mayPrune(k.GroupKind, live) {
				out.removals = append(out.removals, removal{key: k, resource: in.kinds[gvk].resource, live: live})
			}
		}
	}
	slices.SortFunc(out.removals, func(a, b removal) int {
		return cmp.Or(cmp.Compare(waveOf(b.key.GroupKind), waveOf(a.key.GroupKind)), a.key.Compare(b.key))
	})
	out.held = brake(in, len(out.removals), members)
	return out
}

// isMember reports whether live is ours: it bears a stamp that we wrote, and no
// controller made it.
func isMember(live *kube.Object) bool {
	_, stamped := applyset.ParseEpoch(live.GetAnnotations()[bundle.AnnotationContentEpoch])
	return stamped && metav1.GetControllerOf(live) == nil && ownership.MadeByUs(live)
}

func mayPrune(gk schema.GroupKind, live *kube.Object) bool {
	say := live.GetAnnotations()[bundle.AnnotationPrune]
	switch {
	case live.GetDeletionTimestamp() != nil: // it goes already
		return false
	case isDefinition(gk): // all that is in it would go with it
		return say == "enabled"
	}
	return say != "disabled"
}

// brake says why nothing may be removed, or "".
func brake(in pruneInput, removals, members int) string {
	if removals == 0 {
		return ""
	}
	if !slices.ContainsFunc(in.wanted, func(w wanted) bool { return !w.fence }) {
		return "the bundle is empty, and an empty bundle removes nothing; if that is meant, delete the objects by hand"
	}
	for _, gvk := range sortedKinds(in.kinds) {
		if err := in.kinds[gvk].err; err != nil {
			return fmt.Sprintf("what exists of kind %s is not known, so it cannot be counted: %v", gvk.Kind, err)
		}
	}
	if members > massFloor && 2*removals > members && !in.allowMass {
		return fmt.Sprintf("the bundle drops %d of %d objects, more than half; if that is meant, start the sidecars with --allow-mass-prune", removals, members)
	}
	return ""
}

func sortedKinds(t kindTable) []schema.GroupVersionKind {
	out := make([]schema.GroupVersionKind, 0, len(t))
	for gvk := range t {
		out = append(out, gvk)
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	return out
}
