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
type Catalog struct {
	mu     sync.Mutex // mu guards served
	served map[schema.GroupVersionKind]kube.Resource
}

// NewCatalog returns an empty catalog.
func NewCatalog() *Catalog { return &Catalog{served: map[schema.GroupVersionKind]kube.Resource{}} }

func (c *Catalog) get(gvk schema.GroupVersionKind) (kube.Resource, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, known := c.served[gvk]
	return r, known
}

func (c *Catalog) put(resources map[string]kube.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range resources {
		c.served[r.GroupVersionKind] = r
	}
}

// Forget drops a kind, so that the next pass discovers it again.
func (c *Catalog) Forget(gvk schema.GroupVersionKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.served, gvk)
}

// discovery finds kinds for one caller. It asks for each group version at most
// once.
type discovery struct {
	API
	catalog *Catalog
	asked   map[schema.GroupVersion]error
}

// kinds discovers the wanted kinds, and the listed kinds that are not wanted, each in the
// version that the server prefers. An error ends the pass; if a kind cannot be discovered, its
// state contains the error.
func (d discovery) kinds(
	ctx context.Context, wanted []schema.GroupVersionKind, listed []schema.GroupKind,
) (map[schema.GroupVersionKind]plan.KindState, error) {
	out := map[schema.GroupVersionKind]plan.KindState{}
	for _, gvk := range wanted {
		state, err := d.kind(ctx, gvk)
		if EndsPass(err) {
			return nil, err
		}
		out[gvk] = state
	}
	for _, gk := range listed {
		if slices.ContainsFunc(wanted, func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == gk }) {
			continue
		}
		gvk, state, err := d.preferred(ctx, gk)
		if EndsPass(err) {
			return nil, err
		}
		out[gvk] = state
	}
	return out, nil
}

// preferred finds the first version in which a kind is served. If there is none,
// the kind was deleted, and its objects with it.
func (d discovery) preferred(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, plan.KindState, error) {
	var versions []string
	err := d.Read(ctx, func(ctx context.Context) (err error) {
		versions, err = d.Client.Versions(ctx, gk.Group)
		return err
	})
	if err != nil {
		return gk.WithVersion(""), plan.KindState{Err: err}, err
	}
	for _, version := range versions {
		gvk := gk.WithVersion(version)
		state, err := d.kind(ctx, gvk)
		if err != nil || state.Served {
			return gvk, state, err
		}
	}
	return gk.WithVersion(""), plan.KindState{}, nil
}

func (d discovery) kind(ctx context.Context, gvk schema.GroupVersionKind) (plan.KindState, error) {
	if r, known := d.catalog.get(gvk); known {
		return plan.KindState{Resource: r, Served: true}, nil
	}
	err, done := d.asked[gvk.GroupVersion()]
	if !done {
		err = d.groupVersion(ctx, gvk.GroupVersion())
		d.asked[gvk.GroupVersion()] = err
	}
	if err != nil {
		return plan.KindState{Err: err}, err
	}
	r, served := d.catalog.get(gvk)
	return plan.KindState{Resource: r, Served: served}, nil
}

func (d discovery) groupVersion(ctx context.Context, gv schema.GroupVersion) error {
	return d.Read(ctx, func(ctx context.Context) error {
		resources, err := d.Client.Resources(ctx, gv)
		d.catalog.put(resources)
		return err
	})
}

// all returns the kinds that the API server serves and that are not in known,
// each in its preferred version. A group that cannot be read is left out: an
// aggregated API that is unreachable must not block the rest.
func (d discovery) all(ctx context.Context, concurrency int, known []schema.GroupVersionKind) ([]schema.GroupVersionKind, error) {
	var served []schema.GroupVersion
	err := d.Read(ctx, func(ctx context.Context) (err error) {
		served, err = d.Client.GroupVersions(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	resources := make([]map[string]kube.Resource, len(served))
	err = Each(ctx, concurrency, len(served), func(ctx context.Context, i int) error {
		err := d.Read(ctx, func(ctx context.Context) (err error) {
			resources[i], err = d.Client.Resources(ctx, served[i])
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
		d.catalog.put(version)
		for _, r := range version {
			if r.Listable && !seen[r.GroupKind()] {
				seen[r.GroupKind()] = true
				out = append(out, r.GroupVersionKind)
			}
		}
	}
	return out, nil
}
