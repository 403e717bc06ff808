package exec

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/ownership"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// Gatherer reads the live objects of a set.
type Gatherer struct {
	API
	Catalog     *Catalog
	Set         applyset.Set
	Members     applyset.Members // which objects are read; others are counted as strangers
	Concurrency int              // requests at once; at least 1
}

// Depth is how much of the objects a list brings.
type Depth int

// The depths.
const (
	Recent   Depth = iota + 1 // metadata, which may be old
	Metadata                  // metadata; takes a third of the time of Full
	Full
)

// Gather finds the kinds and lists each once. listed are the kinds that the parent lists. If a
// kind cannot be read, its state contains the error. Gather returns an error only if that ends
// the pass.
func (g Gatherer) Gather(
	ctx context.Context, wanted []schema.GroupVersionKind, listed []schema.GroupKind, d Depth,
) (plan.Observation, error) {
	kinds, err := g.Kinds(ctx, wanted, listed)
	if err != nil {
		return plan.Observation{}, err
	}
	out := newObservation(kinds)
	return out, g.List(ctx, out, out.SortedKinds(), d)
}

// Search is Gather for the set of a parent. Where the parent does not list the
// kinds of the set, Search lists all kinds that the API server serves: otherwise
// objects of a kind that the bundle dropped would be forgotten.
func (g Gatherer) Search(ctx context.Context, p applyset.Parent, objects []plan.Wanted, d Depth) (plan.Observation, error) {
	kinds := plan.KindsOf(objects)
	if p.Recorded {
		return g.Gather(ctx, kinds, p.Contents.Kinds, d)
	}
	more, err := g.discovery().all(ctx, g.Concurrency, kinds)
	if err != nil {
		return plan.Observation{}, err
	}
	v, err := g.Gather(ctx, slices.Concat(kinds, more), p.Contents.Kinds, d)
	dropUnused(v, more)
	return v, err
}

// dropUnused drops the kinds that were only searched, if none of their objects carries the
// label of the set. A user who may not read a kind never wrote an object of it. An unknown kind
// stays, since objects of it may exist.
func dropUnused(v plan.Observation, searched []schema.GroupVersionKind) {
	for _, gvk := range searched {
		err := v.Kinds[gvk].Err
		unreadable := apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
		if unreadable || err == nil && len(v.Live[gvk]) == 0 && v.Kinds[gvk].Strangers.Total == 0 {
			delete(v.Kinds, gvk)
			delete(v.Live, gvk)
		}
	}
}

// Kinds discovers where each kind is kept, and lists nothing.
func (g Gatherer) Kinds(
	ctx context.Context, wanted []schema.GroupVersionKind, listed []schema.GroupKind,
) (map[schema.GroupVersionKind]plan.KindState, error) {
	return g.discovery().kinds(ctx, wanted, listed)
}

func (g Gatherer) discovery() discovery {
	return discovery{API: g.API, catalog: g.Catalog, asked: map[schema.GroupVersion]error{}}
}

func newObservation(kinds map[schema.GroupVersionKind]plan.KindState) plan.Observation {
	return plan.Observation{Kinds: kinds, Live: map[schema.GroupVersionKind]map[applyset.Key]*kube.Object{}}
}

// Some finds the kinds as Gather does, and reads only the given objects, one by
// one. complete is false where an object could not be read: only a list shows why.
func (g Gatherer) Some(
	ctx context.Context, kinds []schema.GroupVersionKind, listed []schema.GroupKind, objects []plan.Wanted,
) (v plan.Observation, complete bool, err error) {
	states, err := g.Kinds(ctx, kinds, listed)
	if err != nil {
		return plan.Observation{}, false, err
	}
	v = newObservation(states)
	live, unread := make([]*kube.Object, len(objects)), make([]bool, len(objects))
	err = Each(ctx, g.Concurrency, len(objects), func(ctx context.Context, i int) (err error) {
		if state := states[objects[i].GVK]; state.Served {
			live[i], err = g.Get(ctx, state.Resource, objects[i].Key)
		}
		if unread[i] = err != nil; EndsPass(err) {
			return err
		}
		return nil
	})
	for i, obj := range live {
		gvk := objects[i].GVK
		if v.Live[gvk] == nil {
			v.Live[gvk] = map[applyset.Key]*kube.Object{}
		}
		if obj != nil {
			v.Live[gvk][objects[i].Key] = obj
		}
	}
	return v, !slices.Contains(unread, true), err
}

// List lists the objects of some kinds of v concurrently, into v.
func (g Gatherer) List(ctx context.Context, v plan.Observation, gvks []schema.GroupVersionKind, d Depth) error {
	lists := make([]map[applyset.Key]*kube.Object, len(gvks))
	states := make([]plan.KindState, len(gvks))
	err := Each(ctx, g.Concurrency, len(gvks), func(ctx context.Context, i int) error {
		var err error
		lists[i], states[i], err = g.objects(ctx, gvks[i], v.Kinds[gvks[i]], d)
		return err
	})
	for i, gvk := range gvks {
		v.Kinds[gvk], v.Live[gvk] = states[i], lists[i]
	}
	return err
}

// objects lists one kind.
func (g Gatherer) objects(
	ctx context.Context, gvk schema.GroupVersionKind, state plan.KindState, d Depth,
) (map[applyset.Key]*kube.Object, plan.KindState, error) {
	if !state.Served || !state.Resource.Listable {
		return nil, state, nil
	}
	var list kube.List
	err := g.Read(ctx, func(ctx context.Context) (err error) {
		state.Strangers = applyset.Strangers{} // of the attempt before
		keep := g.keep(gvk.GroupKind(), &state)
		switch d {
		case Recent:
			list, err = g.Client.ListRecentMetadata(ctx, state.Resource, g.Set.Selector(), keep)
		case Metadata:
			list, err = g.Client.ListMetadata(ctx, state.Resource, g.Set.Selector(), keep)
		case Full:
			list, err = g.Client.List(ctx, state.Resource, g.Set.Selector(), keep)
		}
		return err
	})
	switch {
	case apierrors.IsNotFound(err): // its CRD was just deleted
		g.Catalog.Forget(gvk)
		return nil, plan.KindState{}, nil
	case err != nil:
		state.Err = fmt.Errorf("list what exists: %w%s", err, applyset.FenceHint(gvk.GroupKind(), err))
		if !EndsPass(err) {
			err = nil
		}
		return nil, state, err
	}
	state.Version = list.Version
	out := make(map[applyset.Key]*kube.Object, len(list.Objects))
	for _, obj := range list.Objects {
		out[applyset.KeyOf(gvk.GroupKind(), obj)] = obj
	}
	return out, state, nil
}

// keep selects the objects of the set from a list of a kind, and counts strangers.
func (g Gatherer) keep(gk schema.GroupKind, state *plan.KindState) kube.Filter {
	return func(h kube.Head) bool {
		k := applyset.Key{GroupKind: gk, Namespace: h.Namespace, Name: h.Name}
		if g.Members.Has(k) {
			return true
		}
		if applyset.MayBeStranger(gk, h) {
			state.Strangers.Add(func() applyset.Stranger {
				manager := ownership.LabelledBy(h.ManagedFields(), bundle.LabelPartOf)
				return applyset.Stranger{Key: k, Resource: state.Resource, Manager: manager}
			})
		}
		return false
	}
}
