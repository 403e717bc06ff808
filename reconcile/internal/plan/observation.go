package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// Observation is the observed state of a set: its kinds, and the live objects of each. It
// contains only objects of the set (applyset.Members).
type Observation map[schema.GroupVersionKind]KindState

// KindState is the observed state of one kind.
type KindState struct {
	Resource kube.Resource
	Served   bool
	Err      error  // why the kind could not be discovered or its objects not listed; nil: they were
	Version  string // of the list of its objects; empty: there was none
	Live     map[applyset.Key]*kube.Object

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
	for _, state := range v {
		out = out.With(state.Strangers)
	}
	return out
}

// Complete reports whether all kinds could be listed.
func (v Observation) Complete() bool {
	for _, state := range v {
		if state.Err != nil {
			return false
		}
	}
	return true
}

// SortedKinds returns the kinds of the observation in a fixed order.
func (v Observation) SortedKinds() []schema.GroupVersionKind { return sortKinds(maps.Keys(v)) }

func sortKinds(kinds func(func(schema.GroupVersionKind) bool)) []schema.GroupVersionKind {
	sorted := slices.Collect(kinds)
	sorting.By(sorted, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	return sorted
}

// resource returns the resource of want, or why it cannot be applied.
func (v Observation) resource(want Wanted) (kube.Resource, string) {
	state := v[want.GVK]
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
			defined[bundle.Defines(w.Object)] = true
		}
	}
	var out []schema.GroupVersionKind
	for _, gvk := range KindsOf(objects) {
		if state := v[gvk]; !state.Served && state.Err == nil && defined[gvk.GroupKind()] {
			out = append(out, gvk)
		}
	}
	return out
}

// HighestEpoch returns the highest content epoch of the wanted objects, as they are; 0: none has
// one.
func (v Observation) HighestEpoch(objects []Wanted) int64 {
	var highest int64
	for _, w := range objects {
		if live := v[w.GVK].Live[w.Key]; live != nil {
			epoch, _ := applyset.NewerEpoch(live, highest)
			highest = max(highest, epoch)
		}
	}
	return highest
}

// StampsFor returns the complete stamps on the wanted objects, where the parent carries no mark
// that can be decoded. Otherwise the mark lists all contents, and nil is enough.
func (v Observation) StampsFor(p applyset.Parent, objects []Wanted) []applyset.Stamp {
	if p.Known {
		return nil
	}
	var out []applyset.Stamp
	for _, w := range objects {
		if live := v[w.GVK].Live[w.Key]; live != nil {
			if s, complete := applyset.ReadStamp(live); complete {
				out = append(out, s)
			}
		}
	}
	return out
}
