package exec

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// Catalog remembers which kinds the API server serves. A pass asks again for the
// kinds that it does not know: a CRD may have defined them.
type Catalog struct{ served sync.Map } // of kube.Resource by GroupVersionKind

func (c *Catalog) get(gvk schema.GroupVersionKind) (kube.Resource, bool) {
	served, known := c.served.Load(gvk)
	r, _ := served.(kube.Resource)
	return r, known
}

func (c *Catalog) put(resources map[string]kube.Resource) {
	for _, r := range resources {
		c.served.Store(r.GroupVersionKind, r)
	}
}

// Forget drops a kind, so that the next pass discovers it again.
func (c *Catalog) Forget(gvk schema.GroupVersionKind) { c.served.Delete(gvk) }

// asked are the group versions for which one caller asked, so that it asks once.
type asked map[schema.GroupVersion]error

// Kinds discovers the wanted kinds, and the listed kinds that are not wanted, each in the
// version that the server prefers. It lists nothing. An error ends the pass; if a kind cannot be
// discovered, its state contains the error.
func (g Gatherer) Kinds(ctx context.Context, wanted []schema.GroupVersionKind, listed []schema.GroupKind) (plan.Observation, error) {
	out, before := plan.Observation{}, asked{}
	for _, gvk := range wanted {
		state, err := g.kind(ctx, gvk, before)
		if EndsPass(err) {
			return nil, err
		}
		out[gvk] = state
	}
	for _, gk := range listed {
		if slices.ContainsFunc(wanted, func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == gk }) {
			continue
		}
		gvk, state, err := g.preferred(ctx, gk, before)
		if EndsPass(err) {
			return nil, err
		}
		out[gvk] = state
	}
	return out, nil
}

// preferred finds the first version in which a kind is served. If there is none,
// the kind was deleted, and its objects with it.
func (g Gatherer) preferred(ctx context.Context, gk schema.GroupKind, before asked) (schema.GroupVersionKind, plan.KindState, error) {
	var versions []schema.GroupVersion
	err := g.Read(ctx, func(ctx context.Context) (err error) {
		versions, err = g.Client.Versions(ctx, gk.Group)
		return err
	})
	if err != nil {
		return gk.WithVersion(""), plan.KindState{Err: err}, err
	}
	for _, gv := range versions {
		gvk := gv.WithKind(gk.Kind)
		state, err := g.kind(ctx, gvk, before)
		if err != nil || state.Served {
			return gvk, state, err
		}
	}
	return gk.WithVersion(""), plan.KindState{}, nil
}

func (g Gatherer) kind(ctx context.Context, gvk schema.GroupVersionKind, before asked) (plan.KindState, error) {
	if r, known := g.Catalog.get(gvk); known {
		return plan.KindState{Resource: r, Served: true}, nil
	}
	gv := gvk.GroupVersion()
	err, done := before[gv]
	if !done {
		err = g.Read(ctx, func(ctx context.Context) error {
			resources, err := g.Client.Resources(ctx, gv)
			g.Catalog.put(resources)
			return err
		})
		before[gv] = err
	}
	if err != nil {
		return plan.KindState{Err: err}, err
	}
	r, served := g.Catalog.get(gvk)
	return plan.KindState{Resource: r, Served: served}, nil
}

// all returns the kinds that the API server serves and that are not in known,
// each in its preferred version. A group that cannot be read is left out: an
// aggregated API that is unreachable must not block the rest.
func (g Gatherer) all(ctx context.Context, known []schema.GroupVersionKind) ([]schema.GroupVersionKind, error) {
	var served []schema.GroupVersion
	err := g.Read(ctx, func(ctx context.Context) (err error) {
		served, err = g.Client.GroupVersions(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	resources := make([]map[string]kube.Resource, len(served))
	err = Each(ctx, g.Concurrency, len(served), func(ctx context.Context, i int) error {
		err := g.Read(ctx, func(ctx context.Context) (err error) {
			resources[i], err = g.Client.Resources(ctx, served[i])
			return err
		})
		if EndsPass(err) {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	seen := map[schema.GroupKind]bool{}
	for _, gvk := range known {
		seen[gvk.GroupKind()] = true
	}
	var out []schema.GroupVersionKind
	for _, version := range resources { // preferred versions come first
		g.Catalog.put(version)
		for _, r := range version {
			if r.Listable && !seen[r.GroupKind()] {
				seen[r.GroupKind()] = true
				out = append(out, r.GroupVersionKind)
			}
		}
	}
	return out, nil
}
