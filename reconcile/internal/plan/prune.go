package plan

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
)

// Prune lists the objects that the bundle dropped, and why they may not be removed.
type Prune struct {
	Removals []Removal // in the order of deletion
	Brake    string    // the brake that is on, and how to release it; empty: none
	// Owned are of the set, and the bundle dropped them, but a controller became their owner: they are
	// never removed, and people must know.
	Owned applyset.Strangers
}

// Removal is an object of the set that the bundle dropped.
type Removal struct {
	Key      applyset.Key
	Resource kube.Resource
	Live     *kube.Object
}

// InWave reports whether the object is removed in a wave.
func (r Removal) InWave(wave Wave) bool { return waveOf(r.Key.GroupKind) == wave }

// PruneInput is the input of MakePrune.
type PruneInput struct {
	Wanted    []Wanted
	Observed  Observation        // of the kinds of the bundle, and of the kinds that the parent lists
	Inventory applyset.Inventory // of the parent
	AllowMass bool               // more than half of the set may be removed
}

// massFloor is the size of a set up to which any part of it may be removed.
const massFloor = 10

// MakePrune decides which objects may be removed (docs/protocol-objects.md#removals).
func MakePrune(in PruneInput) Prune {
	keep := make(map[applyset.Key]bool, len(in.Wanted)) // true: it is of the fence
	for _, w := range in.Wanted {
		keep[w.Key] = keep[w.Key] || w.Fence
	}
	var out Prune
	members, seen := 0, make(map[types.UID]bool, len(in.Wanted))
	for _, gvk := range in.Observed.SortedKinds() {
		state := in.Observed[gvk]
		for k, live := range state.Live {
			fence, wanted := keep[k]
			switch {
			case fence: // the brakes count the objects of the bundle
				continue
			case wanted: // it always counts as ours
			case !in.Inventory.Has(k) || !isOurs(live): // the object shows whether it still is the one that we wrote
				continue
			case metav1.GetControllerOf(live) != nil:
				owned := applyset.Stranger{
					Key: k, Resource: state.Resource, Manager: ownership.LabelledBy(live.GetManagedFields(), bundle.LabelPartOf),
				}
				out.Owned = out.Owned.With(applyset.Strangers{Total: 1, First: []applyset.Stranger{owned}})
				continue
			}
			if seen[live.GetUID()] {
				continue
			}
			seen[live.GetUID()] = true
			members++
			if !wanted && MayPrune(k.GroupKind, live) {
				out.Removals = append(out.Removals, Removal{Key: k, Resource: state.Resource, Live: live})
			}
		}
	}
	sorting.By(out.Removals, func(a, b Removal) int {
		return cmp.Or(cmp.Compare(waveOf(b.Key.GroupKind), waveOf(a.Key.GroupKind)), a.Key.Compare(b.Key))
	})
	out.Brake = in.brake(len(out.Removals), members)
	return out
}

// IsMember reports whether live, which the inventory lists, still is ours: it
// carries a stamp that we wrote, and no controller created it. Of an object that
// the inventory does not list this proves nothing.
func IsMember(live *kube.Object) bool {
	return isOurs(live) && metav1.GetControllerOf(live) == nil
}

// isOurs reports whether live carries a stamp that we wrote.
func isOurs(live *kube.Object) bool {
	_, stamped := applyset.ParseEpoch(kube.Annotation(live, bundle.AnnotationContentEpoch))
	return stamped && ownership.MadeByUs(live)
}

// MayPrune reports whether a member of the set that the bundle dropped may be
// removed, by its kind and its annotation.
func MayPrune(gk schema.GroupKind, live *kube.Object) bool {
	return live.GetDeletionTimestamp() == nil && mayPrune(gk, live.GetAnnotations())
}

func mayPrune(gk schema.GroupKind, annotations map[string]string) bool {
	if IsDefinition(gk) { // everything in it would be deleted with it
		return annotations[bundle.AnnotationPrune] == "enabled"
	}
	return annotations[bundle.AnnotationPrune] != "disabled"
}

// MayDelete reports whether a pass may ever delete an object with these annotations: to create
// it again, or because a later bundle drops it.
func MayDelete(gk schema.GroupKind, annotations map[string]string) bool {
	return mayRecreate(gk, annotations) || mayPrune(gk, annotations)
}

// brake says why nothing may be removed; empty: it may.
func (in PruneInput) brake(removals, members int) string {
	if removals == 0 {
		return ""
	}
	if !slices.ContainsFunc(in.Wanted, func(w Wanted) bool { return !w.Fence }) {
		return "the bundle is empty, and an empty bundle removes nothing; if that is meant, delete the objects by hand"
	}
	for _, gvk := range in.Observed.SortedKinds() {
		if err := in.Observed[gvk].Err; err != nil {
			return fmt.Sprintf("what exists of kind %s is not known, so it cannot be counted: %v", gvk.Kind, err)
		}
	}
	if members > massFloor && 2*removals > members && !in.AllowMass {
		return fmt.Sprintf("the bundle drops %d of %d objects, more than half; if that is meant, start the sidecars with --allow-mass-prune", removals, members)
	}
	return ""
}
