package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// Observation is the observed state of a set: its kinds, and the live objects of each. It
// contains only objects of the set (applyset.Members).
type Observation struct {
	Kinds map[schema.GroupVersionKind]KindState
	Live  map[schema.GroupVersionKind]map[applyset.Key]*kube.Object
}

// KindState is the observed state of one kind.
type KindState struct {
	Resource kube.Resource
	Served   bool
	Err      error  // why the kind could not be discovered or its objects not listed; nil: they were
	Version  string // of the list of its objects; empty: there was none

	// Strangers carry the set's label and are not of the set. Observation contains no more of
	// them than this.
	Strangers applyset.Strangers
}

// Unwatchable says why a kind that is served cannot be watched; empty: it can.
func (s KindState) Unwatchable() string {
	switch {
	case s.Err != nil:
		return s.Err.Error()
	case !s.Resource.Watchable || s.Version == "":
		return "the API server cannot watch the kind " + s.Resource.Kind
	}
	return ""
}

// Strangers returns the strangers of all kinds.
func (v Observation) Strangers() applyset.Strangers {
	var out applyset.Strangers
	for _, state := range v.Kinds {
		out = out.With(state.Strangers)
	}
	return out
}

// Complete reports whether all kinds could be listed.
func (v Observation) Complete() bool {
	for _, state := range v.Kinds {
		if state.Err != nil {
			return false
		}
	}
	return true
}

// SortedKinds returns the kinds of the observation in a fixed order.
func (v Observation) SortedKinds() []schema.GroupVersionKind { return sortKinds(maps.Keys(v.Kinds)) }

func sortKinds(kinds func(func(schema.GroupVersionKind) bool)) []schema.GroupVersionKind {
	sorted := slices.Collect(kinds)
	sorting.By(sorted, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	return sorted
}

// resource returns the resource of want, or why it cannot be applied.
func (v Observation) resource(want Wanted) (kube.Resource, string) {
	state := v.Kinds[want.GVK]
	switch {
	case state.Err != nil:
		return kube.Resource{}, state.Err.Error()
	case !state.Served:
		return kube.Resource{}, fmt.Sprintf("the API server does not know the kind %s of %s: it is misspelled, or its CRD is missing", want.GVK.Kind, want.GVK.GroupVersion())
	case state.Resource.Namespaced && want.Key.Namespace == "":
		return kube.Resource{}, fmt.Sprintf("a %s belongs to a namespace; set metadata.namespace", want.GVK.Kind)
	case !state.Resource.Namespaced && want.Key.Namespace != "":
		return kube.Resource{}, fmt.Sprintf("a %s belongs to no namespace; remove metadata.namespace", want.GVK.Kind)
	}
	return state.Resource, ""
}

// Pending returns the kinds that the API server does not serve yet, but that a
// CRD among the wanted objects defines. CRDs in failed do not count.
func (v Observation) Pending(objects []Wanted, failed map[applyset.Key]string) []schema.GroupVersionKind {
	defined := map[schema.GroupKind]bool{}
	for _, w := range objects {
		if _, bad := failed[w.Key]; !bad {
			defined[w.Defines()] = true
		}
	}
	var out []schema.GroupVersionKind
	for _, gvk := range KindsOf(objects) {
		if state := v.Kinds[gvk]; !state.Served && state.Err == nil && defined[gvk.GroupKind()] {
			out = append(out, gvk)
		}
	}
	return out
}

// Only returns the observation of some wanted objects, without the other objects of the set.
func (v Observation) Only(objects []Wanted) Observation {
	out := Observation{Kinds: v.Kinds, Live: map[schema.GroupVersionKind]map[applyset.Key]*kube.Object{}}
	for _, w := range objects {
		live, exists := v.Live[w.GVK][w.Key]
		if !exists {
			continue
		}
		if out.Live[w.GVK] == nil {
			out.Live[w.GVK] = map[applyset.Key]*kube.Object{}
		}
		out.Live[w.GVK][w.Key] = live
	}
	return out
}

// HighestEpoch returns the highest content epoch of any live object;
// 0: there is none.
func (v Observation) HighestEpoch() int64 {
	var highest int64
	for _, objects := range v.Live {
		for _, obj := range objects {
			if epoch, newer := applyset.NewerEpoch(obj, highest); newer {
				highest = epoch
			}
		}
	}
	return highest
}

// StampsFor returns the complete stamps on all live objects, in no order, where the parent
// carries no mark that can be decoded. Otherwise the mark lists all contents, and nil is
// enough.
func (v Observation) StampsFor(p applyset.Parent) []applyset.Stamp {
	if p.Known {
		return nil
	}
	var out []applyset.Stamp
	for _, objects := range v.Live {
		for _, obj := range objects {
			if s, complete := applyset.ReadStamp(obj); complete {
				out = append(out, s)
			}
		}
	}
	return out
}
