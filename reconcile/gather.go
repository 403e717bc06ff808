package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// catalog remembers which kinds the apiserver serves. What it does not know is
// asked for again in each pass: a CRD may have brought it.
type catalog struct {
	mu     sync.Mutex // mu guards served
	served map[schema.GroupVersionKind]kube.Resource
}

func (c *catalog) get(gvk schema.GroupVersionKind) (kube.Resource, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, found := c.served[gvk]
	return r, found
}

func (c *catalog) put(resources map[string]kube.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range resources {
		c.served[r.GroupVersionKind] = r
	}
}

func (c *catalog) forget(gvk schema.GroupVersionKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.served, gvk)
}

// gatherer reads what is there.
type gatherer struct {
	api
	catalog     *catalog
	set         applyset.Set
	concurrency int
}

// depth says how much of the objects a list brings.
type depth int

const (
	recent   depth = iota + 1 // metadata, which may be old
	metadata                  // a third of the time
	whole
)

// found is what a gatherer read.
type found struct {
	kinds kindTable
	live  map[schema.GroupVersionKind]map[applyset.Key]*kube.Object
}

// gather finds the kinds and lists each once. recorded are the kinds that the
// parent names; those that the bundle does not name are listed in a version that
// the server likes best. A kind that cannot be read is told in its state; the
// error is for what ends the pass.
func (g gatherer) gather(ctx context.Context, wanted []schema.GroupVersionKind, recorded []schema.GroupKind, d depth) (found, error) {
	kinds, err := g.kinds(ctx, wanted, recorded)
	if err != nil {
		return found{}, err
	}
	out := found{kinds: kinds, live: map[schema.GroupVersionKind]map[applyset.Key]*kube.Object{}}
	return out, g.into(ctx, out, sortedKinds(kinds), d)
}

// some finds the kinds as gather does, and reads some objects alone. all is false
// where one of them could not be read, so that a list has to tell why.
func (g gatherer) some(ctx context.Context, named []schema.GroupVersionKind, recorded []schema.GroupKind, objects []wanted) (f found, all bool, err error) {
	kinds, err := g.kinds(ctx, named, recorded)
	if err != nil {
		return found{}, false, err
	}
	f = found{kinds: kinds, live: map[schema.GroupVersionKind]map[applyset.Key]*kube.Object{}}
	live, unread := make([]*kube.Object, len(objects)), make([]bool, len(objects))
	err = each(ctx, g.concurrency, len(objects), func(ctx context.Context, i int) (err error) {
		if state := kinds[objects[i].gvk]; state.served {
			live[i], err = g.get(ctx, state.resource, objects[i].key)
		}
		if unread[i] = err != nil; endsPass(err) {
			return err
		}
		return nil
	})
	for i, obj := range live {
		gvk := objects[i].gvk
		if f.live[gvk] == nil {
			f.live[gvk] = map[applyset.Key]*kube.Object{}
		}
		if obj != nil {
			f.live[gvk][objects[i].key] = obj
		}
	}
	return f, !slices.Contains(unread, true), err
}

// into lists the objects of some kinds, side by side, into f.
func (g gatherer) into(ctx context.Context, f found, gvks []schema.GroupVersionKind, d depth) error {
	lists := make([]map[applyset.Key]*kube.Object, len(gvks))
	states := make([]kindState, len(gvks))
	err := each(ctx, g.concurrency, len(gvks), func(ctx context.Context, i int) error {
		var err error
		lists[i], states[i], err = g.objects(ctx, gvks[i], f.kinds[gvks[i]], d)
		return err
	})
	for i, gvk := range gvks {
		f.kinds[gvk], f.live[gvk] = states[i], lists[i]
	}
	return err
}

// kinds finds out where each kind is kept.
func (g gatherer) kinds(ctx context.Context, wanted []schema.GroupVersionKind, recorded []schema.GroupKind) (kindTable, error) {
	out, asked := kindTable{}, map[schema.GroupVersion]error{}
	for _, gvk := range wanted {
		state, err := g.find(ctx, gvk, asked)
		if endsPass(err) {
			return nil, err
		}
		out[gvk] = state
	}
	for _, gk := range recorded {
		if slices.ContainsFunc(wanted, func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == gk }) {
			continue
		}
		gvk, state, err := g.locate(ctx, gk, asked)
		if endsPass(err) {
			return nil, err
		}
		out[gvk] = state
	}
	return out, nil
}

// locate finds the first version in which a kind is served. If there is none,
// the kind is gone, and its objects with it.
func (g gatherer) locate(ctx context.Context, gk schema.GroupKind, asked map[schema.GroupVersion]error) (schema.GroupVersionKind, kindState, error) {
	var versions []string
	err := g.read(ctx, func(ctx context.Context) (err error) {
		versions, err = g.client.Versions(ctx, gk.Group)
		return err
	})
	if err != nil {
		return gk.WithVersion(""), kindState{err: err}, err
	}
	for _, version := range versions {
		gvk := gk.WithVersion(version)
		state, err := g.find(ctx, gvk, asked)
		if err != nil || state.served {
			return gvk, state, err
		}
	}
	return gk.WithVersion(""), kindState{}, nil
}

// find asks for each group version once at most.
func (g gatherer) find(ctx context.Context, gvk schema.GroupVersionKind, asked map[schema.GroupVersion]error) (kindState, error) {
	if r, known := g.catalog.get(gvk); known {
		return kindState{resource: r, served: true}, nil
	}
	err, done := asked[gvk.GroupVersion()]
	if !done {
		err = g.discover(ctx, gvk.GroupVersion())
		asked[gvk.GroupVersion()] = err
	}
	if err != nil {
		return kindState{err: err}, err
	}
	r, served := g.catalog.get(gvk)
	return kindState{resource: r, served: served}, nil
}

func (g gatherer) discover(ctx context.Context, gv schema.GroupVersion) error {
	return g.read(ctx, func(ctx context.Context) error {
		resources, err := g.client.Resources(ctx, gv)
		g.catalog.put(resources)
		return err
	})
}

// objects lists one kind.
func (g gatherer) objects(ctx context.Context, gvk schema.GroupVersionKind, state kindState, d depth) (map[applyset.Key]*kube.Object, kindState, error) {
	if !state.served || !state.resource.Listable {
		return nil, state, nil
	}
	var listed kube.List
	err := g.read(ctx, func(ctx context.Context) (err error) {
		switch d {
		case recent:
			listed, err = g.client.ListRecentMetadata(ctx, state.resource, g.set.Selector())
		case metadata:
			listed, err = g.client.ListMetadata(ctx, state.resource, g.set.Selector())
		default:
			listed, err = g.client.List(ctx, state.resource, g.set.Selector())
		}
		return err
	})
	switch {
	case apierrors.IsNotFound(err): // its CRD was just deleted
		g.catalog.forget(gvk)
		return nil, kindState{}, nil
	case err != nil:
		state.err = fmt.Errorf("look at what is there: %w%s", err, applyset.FenceHint(gvk.GroupKind(), err))
		if !endsPass(err) {
			err = nil
		}
		return nil, state, err
	}
	state.version = listed.Version
	out := make(map[applyset.Key]*kube.Object, len(listed.Objects))
	for _, obj := range listed.Objects {
		out[applyset.KeyOf(gvk.GroupKind(), obj)] = obj
	}
	return out, state, nil
}

// endsPass reports whether an error concerns more than one object or kind.
func endsPass(err error) bool {
	var unreachable *UnreachableError
	return err != nil && (errors.As(err, &unreachable) || judge(err) == fatal)
}

// each calls do for 0 to n-1, some at once, and returns the first error, which
// ends the others.
func each(ctx context.Context, concurrency, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int, n) // all of them, so that no sender is needed
	for i := range n {
		next <- i
	}
	close(next)
	var workers sync.WaitGroup
	for range min(concurrency, n) {
		workers.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

func newCatalog() *catalog { return &catalog{served: map[schema.GroupVersionKind]kube.Resource{}} }
