package drift

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
)

const (
	// stableWatch is how long a watch must last for earlier failures not to count any more.
	stableWatch = 10 * time.Second
	// refusedPause is the pause before a watch that the API server refused is
	// requested again.
	refusedPause = time.Minute
)

// Watch is a watch of one kind, or of the parent.
type Watch struct {
	Resource kube.Resource
	Parent   bool   // it brings the parent in full, not metadata alone
	Problem  string // why the kind cannot be watched; empty: it can
	// Version is the resource version to resume from; empty: a list comes first.
	// It belongs to the goroutine of Follow while that runs.
	Version string
}

// Message is a report of a watch. Where Event is nil, the state of the watch changed.
type Message struct {
	From    *Watch
	Event   *Event
	Open    bool
	Problem string // why it is not open; empty: none
}

// Watcher follows watches. Its methods may be called by several goroutines.
type Watcher struct {
	Client   *kube.Client
	Catalog  *exec.Catalog
	Set      applyset.Set
	Members  applyset.Members // events of other objects are dropped
	Keys     []applyset.Key   // of the kept objects
	Messages chan<- Message   // received until ctx ends
}

// Follow keeps a watch open until ctx ends, and sends its events. An error says why the watch
// cannot be kept open. A full pass then finds the changes made meanwhile.
func (r *Watcher) Follow(ctx context.Context, w *Watch) error {
	if w.Problem != "" {
		if err := r.send(ctx, Message{From: w, Problem: w.Problem}); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	failures, pauses := 0, exec.NewBackoff()
	for {
		began := time.Now()
		err := r.stream(ctx, w)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(began) > stableWatch {
			failures = 0
			pauses.Reset()
		}
		failures++
		switch {
		case isRefused(err):
			if err := r.awaitRights(ctx, w, err); err != nil {
				return err
			}
			failures = 0
			pauses.Reset()
			continue
		case apierrors.IsNotFound(err):
			r.Catalog.Forget(w.Resource.GroupVersionKind)
			return fmt.Errorf("the kind %s was deleted: %w", w.Resource.GroupKind(), err)
		case failures >= exec.MaxAttempts:
			return fmt.Errorf("the watch of %s cannot be kept open: %w", w.Resource.GroupKind(), cmp.Or(err, errEnded))
		}
		if err := r.beforeNext(ctx, w, &pauses, err); err != nil {
			return err
		}
	}
}

// awaitRights reports why w is not open, and waits before the next request.
func (r *Watcher) awaitRights(ctx context.Context, w *Watch, refusal error) error {
	if err := r.send(ctx, Message{From: w, Problem: refusal.Error()}); err != nil {
		return err
	}
	return exec.Sleep(ctx, refusedPause)
}

// beforeNext prepares w to be opened again after err, and waits if that may help.
// A watch that the server ended gracefully after a while is opened at once.
func (r *Watcher) beforeNext(ctx context.Context, w *Watch, pauses *backoff.Backoff, err error) error {
	compacted := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	if compacted {
		w.Version = "" // a list shows the changes made meanwhile
	}
	if pauses.Pause() == 0 && (err == nil || compacted) {
		pauses.Next()
		return nil
	}
	if err := r.send(ctx, Message{From: w}); err != nil {
		return err
	}
	return exec.Pause(ctx, pauses, cmp.Or(err, errEnded))
}

// isRefused reports whether this user may not watch the kind, or the kind cannot
// be watched.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err)
}

// errEnded reports that the server ended a watch gracefully.
var errEnded = errors.New("the server ends it at once")

// stream opens the watch and sends its events until it ends; nil: the server ended it
// gracefully. w.Version moves with it, so that the next watch resumes there.
func (r *Watcher) stream(ctx context.Context, w *Watch) error {
	if w.Version == "" {
		if err := r.relist(ctx, w); err != nil {
			return err
		}
	}
	s, err := r.open(ctx, w)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // every event was read
	if err := r.send(ctx, Message{From: w, Open: true}); err != nil {
		return err
	}
	for {
		e, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.deliver(ctx, w, e); err != nil {
			return err
		}
	}
}

// deliver sends an event. The resume version advances only after delivery, so an
// event lost at shutdown is delivered again on the next watch.
func (r *Watcher) deliver(ctx context.Context, w *Watch, e kube.Event) error {
	if e.Type != watch.Bookmark {
		out := NewEvent(applyset.KeyOf(w.Resource.GroupKind(), e.Object), e.Object)
		out.Deleted = e.Type == watch.Deleted
		if err := r.send(ctx, Message{From: w, Event: out}); err != nil {
			return err
		}
	}
	w.Version = e.Object.GetResourceVersion()
	return nil
}

func (r *Watcher) open(ctx context.Context, w *Watch) (*kube.Stream, error) {
	if w.Parent {
		query := r.parentQuery()
		query.Set("resourceVersion", w.Version)
		return r.Client.Watch(ctx, w.Resource, r.Set.Namespace, query)
	}
	query := url.Values{"labelSelector": {r.Set.Selector()}, "resourceVersion": {w.Version}}
	return r.Client.WatchMetadata(ctx, w.Resource, "", query, r.keep(w))
}

func (r *Watcher) parentQuery() url.Values {
	return url.Values{"fieldSelector": {"metadata.name=" + r.Set.Name}}
}

// relist sends the objects that exist now, where no watch can show the changes.
func (r *Watcher) relist(ctx context.Context, w *Watch) error {
	list, err := r.list(ctx, w)
	if err != nil {
		return err
	}
	listed := map[applyset.Key]bool{}
	for _, obj := range list.Objects {
		e := NewEvent(applyset.KeyOf(w.Resource.GroupKind(), obj), obj)
		listed[e.Key] = true
		if err := r.send(ctx, Message{From: w, Event: e}); err != nil {
			return err
		}
	}
	for _, k := range r.keysOf(w) {
		if listed[k] {
			continue
		}
		e := &Event{Key: k, Deleted: true, Version: list.Version}
		if err := r.send(ctx, Message{From: w, Event: e}); err != nil {
			return err
		}
	}
	w.Version = list.Version
	return nil
}

func (r *Watcher) list(ctx context.Context, w *Watch) (list kube.List, err error) {
	err = exec.ReadOnly(r.Client, r.Set, time.Time{}).Read(ctx, func(ctx context.Context) (err error) {
		if w.Parent {
			list, err = r.Client.ListSelected(ctx, w.Resource, r.Set.Namespace, r.parentQuery())
		} else {
			list, err = r.Client.List(ctx, w.Resource, r.Set.Selector(), kube.Metadata, r.keep(w))
		}
		return err
	})
	return list, err
}

// keep selects the objects of the set.
func (r *Watcher) keep(w *Watch) kube.Filter {
	return func(h kube.Head) bool {
		return r.Members.Has(applyset.Key{GroupKind: w.Resource.GroupKind(), Namespace: h.Namespace, Name: h.Name})
	}
}

// keysOf returns the kept objects that w watches. The parent is a ConfigMap, but does not carry
// the label by which ConfigMaps are watched.
func (r *Watcher) keysOf(w *Watch) []applyset.Key {
	if w.Parent {
		return []applyset.Key{r.Set.ParentKey()}
	}
	var out []applyset.Key
	for _, k := range r.Keys {
		if k.GroupKind == w.Resource.GroupKind() && k != r.Set.ParentKey() {
			out = append(out, k)
		}
	}
	return out
}

// send blocks until the message is received. An error means that it was not,
// because ctx ended.
func (r *Watcher) send(ctx context.Context, m Message) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case r.Messages <- m:
		return nil
	}
}
