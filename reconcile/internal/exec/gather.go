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
	Members     applyset.Members // which objects are read; others are counted as strangers
	Concurrency int              // requests at once; at least 1
}

// Gather finds the kinds and lists each once. listed are the kinds that the parent lists. If a
// kind cannot be read, its state contains the error. Gather returns an error only if that ends
// the pass.
func (g Gatherer) Gather(
	ctx context.Context, wanted []schema.GroupVersionKind, listed []schema.GroupKind, d kube.Depth,
) (plan.Observation, error) {
	out, err := g.Kinds(ctx, wanted, listed)
	if err != nil {
		return nil, err
	}
	return out, g.List(ctx, out, out.SortedKinds(), d)
}

// Search is Gather for the set of a parent. Where the parent does not list the
// kinds of the set, Search lists all kinds that the API server serves: otherwise
// objects of a kind that the bundle dropped would be forgotten.
func (g Gatherer) Search(ctx context.Context, p applyset.Parent, objects []plan.Wanted, d kube.Depth) (plan.Observation, error) {
	kinds := plan.KindsOf(objects)
	if p.Recorded {
		return g.Gather(ctx, kinds, p.Contents.Kinds, d)
	}
	more, err := g.all(ctx, kinds)
	if err != nil {
		return nil, err
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
		state, err := v[gvk], v[gvk].Err
		unreadable := apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
		if unreadable || err == nil && len(state.Live) == 0 && state.Strangers.Total == 0 {
			delete(v, gvk)
		}
	}
}

// Some finds the kinds as Gather does, and reads only the given objects, one by
// one. complete is false where an object could not be read: only a list shows why.
func (g Gatherer) Some(
	ctx context.Context, kinds []schema.GroupVersionKind, listed []schema.GroupKind, objects []plan.Wanted,
) (v plan.Observation, complete bool, err error) {
	if v, err = g.Kinds(ctx, kinds, listed); err != nil {
		return nil, false, err
	}
	live, unread := make([]*kube.Object, len(objects)), make([]bool, len(objects))
	err = Each(ctx, g.Concurrency, len(objects), func(ctx context.Context, i int) (err error) {
		if state := v[objects[i].GVK]; state.Served {
			live[i], err = g.Get(ctx, state.Resource, objects[i].Key)
		}
		if unread[i] = err != nil; EndsPass(err) {
			return err
		}
		return nil
	})
	for i, obj := range live {
		state := v[objects[i].GVK]
		if state.Live == nil {
			state.Live = map[applyset.Key]*kube.Object{}
		}
		if obj != nil {
			state.Live[objects[i].Key] = obj
		}
		v[objects[i].GVK] = state
	}
	return v, !slices.Contains(unread, true), err
}

// List lists the objects of some kinds of v concurrently, into v.
func (g Gatherer) List(ctx context.Context, v plan.Observation, gvks []schema.GroupVersionKind, d kube.Depth) error {
	states := make([]plan.KindState, len(gvks))
	err := Each(ctx, g.Concurrency, len(gvks), func(ctx context.Context, i int) (err error) {
		states[i], err = g.objects(ctx, gvks[i], v[gvks[i]], d)
		return err
	})
	for i, gvk := range gvks {
		v[gvk] = states[i]
	}
	return err
}

// objects lists one kind.
func (g Gatherer) objects(ctx context.Context, gvk schema.GroupVersionKind, state plan.KindState, d kube.Depth) (plan.KindState, error) {
	state.Live = nil
	if !state.Served || !state.Resource.Listable {
		return state, nil
	}
	var list kube.List
	err := g.Read(ctx, func(ctx context.Context) (err error) {
		state.Strangers = applyset.Strangers{} // of the attempt before
		list, err = g.Client.List(ctx, state.Resource, g.Set.Selector(), d, g.keep(gvk.GroupKind(), &state))
		return err
	})
	switch {
	case apierrors.IsNotFound(err): // its CRD was just deleted
		g.Catalog.Forget(gvk)
		return plan.KindState{}, nil
	case err != nil:
		state.Err = fmt.Errorf("list what exists: %w%s", err, applyset.FenceHint(gvk.GroupKind(), err))
		if !EndsPass(err) {
			err = nil
		}
		return state, err
	}
	state.Version, state.Live = list.Version, make(map[applyset.Key]*kube.Object, len(list.Objects))
	for _, obj := range list.Objects {
		state.Live[applyset.KeyOf(gvk.GroupKind(), obj)] = obj
	}
	return state, nil
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
