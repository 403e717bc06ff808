package reconcile

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// everyKind returns the kinds that the apiserver serves, but for those in known,
// each in the version that it likes best. It is asked where the parent, which
// records the kinds of the set, is gone: an object of a kind that the bundle no
// longer has would be forgotten otherwise. A group that cannot be asked is left
// out: an aggregated API that is away must not hold up the rest.
func (g gatherer) everyKind(ctx context.Context, known []schema.GroupVersionKind) ([]schema.GroupVersionKind, error) {
	var served []schema.GroupVersion
	err := g.read(ctx, func(ctx context.Context) (err error) {
		served, err = g.client.GroupVersions(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	found := make([]map[string]kube.Resource, len(served))
	err = each(ctx, g.concurrency, len(served), func(ctx context.Context, i int) error {
		err := g.read(ctx, func(ctx context.Context) (err error) {
			found[i], err = g.client.Resources(ctx, served[i])
			return err
		})
		if endsPass(err) {
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
	for _, resources := range found { // preferred versions come first
		g.catalog.put(resources)
		for _, r := range resources {
			if r.Listable && !seen[r.GroupKind()] {
				seen[r.GroupKind()] = true
				out = append(out, r.GroupVersionKind)
			}
		}
	}
	return out, nil
}

// searched drops the kinds that were merely searched and have nothing of the set:
// a user who may not read them has never written them. Where it is not known
// what is there, that counts.
func (f found) searched(more []schema.GroupVersionKind) {
	for _, gvk := range more {
		err := f.kinds[gvk].err
		unreadable := apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
		if unreadable || err == nil && len(f.live[gvk]) == 0 {
			delete(f.kinds, gvk)
			delete(f.live, gvk)
		}
	}
}

// search gathers, and where the parent does not tell the kinds of the set, looks
// through all that are served.
func (g gatherer) search(ctx context.Context, p applyset.Parent, objects []wanted, d depth) (found, error) {
	kinds := kindsOf(objects)
	if p.Recorded {
		return g.gather(ctx, kinds, p.Contents.Kinds, d)
	}
	more, err := g.everyKind(ctx, kinds)
	if err != nil {
		return found{}, err
	}
	f, err := g.gather(ctx, slices.Concat(kinds, more), p.Contents.Kinds, d)
	f.searched(more)
	return f, err
}
