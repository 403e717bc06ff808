package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

const (
	// watchStands is how long a watch has to last for what went wrong before not
	// to count.
	watchStands = 10 * time.Second
	// refusedPause is the pause before a watch is asked for again that this user
	// may not have.
	refusedPause = time.Minute
)

// follow keeps a watch open until ctx ends, and tells what it brings. An error
// says why it cannot be kept; nothing of what happened meanwhile is lost on the
// pass that follows.
func (k *keeper) follow(ctx context.Context, w *watched) error {
	if w.blind != "" {
		if err := k.tell(ctx, message{from: w, problem: w.blind}); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for failures := 0; ; {
		began := time.Now()
		err := k.stream(ctx, w)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(began) > watchStands {
			failures = 0
		}
		failures++
		switch {
		case refusesWatch(err):
			if err := k.refused(ctx, w, err); err != nil {
				return err
			}
			failures = 0
			continue
		case apierrors.IsNotFound(err):
			k.env.catalog.forget(w.resource.GroupVersionKind)
			return &DriftError{Reason: fmt.Sprintf("the kind %s is gone", w.gk), Err: err}
		case failures >= maxAttempts:
			return &DriftError{Reason: fmt.Sprintf("the watch of %s cannot be kept", w.gk), Err: orEnded(err)}
		}
		if err := k.beforeNext(ctx, w, failures, err); err != nil {
			return err
		}
	}
}

// refused tells why w is not open, and waits before it is asked for again.
func (k *keeper) refused(ctx context.Context, w *watched, why error) error {
	if err := k.tell(ctx, message{from: w, problem: why.Error()}); err != nil {
		return err
	}
	return sleep(ctx, refusedPause)
}

// beforeNext makes w ready to be opened again after err, and waits if that may
// help. What ended in good order after a while is opened at once.
func (k *keeper) beforeNext(ctx context.Context, w *watched, failures int, err error) error {
	compacted := apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	if compacted {
		w.version = "" // a list tells what happened meanwhile
	}
	if failures == 1 && (err == nil || compacted) {
		return nil
	}
	if err := k.tell(ctx, message{from: w}); err != nil {
		return err
	}
	return pause(ctx, failures, orEnded(err))
}

// refusesWatch reports whether this user, or this kind, may not be watched.
func refusesWatch(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err)
}

// errEnded says that the server ended a watch in good order.
var errEnded = errors.New("the server ends it at once")

func orEnded(err error) error {
	if err == nil {
		return errEnded
	}
	return err
}

// stream opens the watch and tells what it brings until it ends; nil: the server
// has ended it in good order. w.version moves with it, so that the next one goes
// on from there.
func (k *keeper) stream(ctx context.Context, w *watched) error {
	if w.version == "" {
		if err := k.relist(ctx, w); err != nil {
			return err
		}
	}
	s, err := k.openStream(ctx, w)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // what it has to say was said
	if err := k.tell(ctx, message{from: w, open: true}); err != nil {
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
		if err := k.hand(ctx, w, e); err != nil {
			return err
		}
	}
}

// hand tells an event. Only then the watch goes on after it: what nobody heard,
// because Keep was about to end, comes again when it goes on.
func (k *keeper) hand(ctx context.Context, w *watched, e kube.Event) error {
	version := e.Object.GetResourceVersion()
	if e.Type != watch.Bookmark {
		n := &news{key: applyset.KeyOf(w.gk, e.Object), obj: e.Object, gone: e.Type == watch.Deleted, version: version}
		if err := k.tell(ctx, message{from: w, news: n}); err != nil {
			return err
		}
	}
	w.version = version
	return nil
}

func (k *keeper) openStream(ctx context.Context, w *watched) (*kube.Stream, error) {
	query := maps.Clone(w.query)
	query.Set("resourceVersion", w.version)
	if w.whole {
		return k.env.client.Watch(ctx, w.resource, w.namespace, query)
	}
	return k.env.client.WatchMetadata(ctx, w.resource, w.namespace, query)
}

// relist tells what is there now, where no watch can tell what happened.
func (k *keeper) relist(ctx context.Context, w *watched) error {
	var list kube.List
	a := api{client: k.env.client, lease: endless, unsure: new(doubt)}
	err := a.read(ctx, func(ctx context.Context) (err error) {
		if w.whole {
			list, err = k.env.client.ListSelected(ctx, w.resource, w.namespace, w.query)
		} else {
			list, err = k.env.client.ListMetadata(ctx, w.resource, k.env.set.Selector())
		}
		return err
	})
	if err != nil {
		return err
	}
	there := map[applyset.Key]bool{}
	for _, obj := range list.Objects {
		n := &news{key: applyset.KeyOf(w.gk, obj), obj: obj, version: obj.GetResourceVersion()}
		there[n.key] = true
		if err := k.tell(ctx, message{from: w, news: n}); err != nil {
			return err
		}
	}
	for _, name := range applyset.SortedKeys(k.objects) {
		if name.GroupKind == w.gk && !there[name] && k.objects[name].parent == w.whole {
			n := &news{key: name, gone: true, version: list.Version}
			if err := k.tell(ctx, message{from: w, news: n}); err != nil {
				return err
			}
		}
	}
	w.version = list.Version
	return nil
}

// tell sends a message to the loop, which hears all until ctx ends. An error says
// that it was not heard.
func (k *keeper) tell(ctx context.Context, m message) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case k.messages <- m:
		return nil
	}
}
