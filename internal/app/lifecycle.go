package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/event"
)

// Run runs the sidecar until ctx ends, and stops it in order: the gate closes
// first, then leadership is given up, then the shutdown delay passes, during
// which the API still answers, and last the presence goes (DESIGN 8). It
// returns nil when ctx ended, and otherwise why the sidecar cannot go on.
func (a *App) Run(ctx context.Context) error {
	// Three groups, each of which outlives the one after it: what answers, what
	// is in etcd, what leads.
	serving, stopServing := group(ctx)
	defer stopServing()
	present, stopPresent := group(ctx)
	defer stopPresent()
	leading, stopLeading := group(ctx)
	defer stopLeading()

	serving.start("api", func(ctx context.Context) error { return a.server.Run(ctx, a.listener) })
	serving.start("snapshot", a.keepSnapshot)
	serving.start("gate", a.gate.Run)
	serving.start("status", a.store.Run)
	serving.start("fleet", a.follower.Run)
	serving.start("etcd servers", a.watchEtcdServers)
	if a.opts.APIServerReadyz {
		serving.start("apiserver", func(ctx context.Context) error { return pollAPIServer(ctx, a.rest, a.apiserver) })
	}
	present.start("says", a.keepSays)
	present.start("presence", a.presence.Run)
	// Only who has the presence may write the record (DESIGN 4.9).
	present.start("registrar", after(a.presence.Acquired(), a.registrar.Run))
	leading.start("election", after(a.presence.Acquired(), a.election.Run))
	a.log.Info("started", "url", a.URL(), "version", a.local.Get().Version.String(), "digest", a.local.Get().Digest)

	var err error
	select {
	case <-ctx.Done():
	case <-serving.failed():
	case <-present.failed():
	case <-leading.failed():
	}
	stopped := time.Now()
	err = errors.Join(serving.err(), present.err(), leading.err())
	a.closeGate(err)

	stopLeading()
	err = errors.Join(err, leading.wait())
	a.log.Info("leadership given up")
	if ctx.Err() != nil {
		<-time.After(time.Until(stopped.Add(a.opts.ShutdownDelay)))
	}
	stopPresent()
	err = errors.Join(err, present.wait())
	stopServing()
	err = errors.Join(err, serving.wait(), a.etcd.Close())
	a.log.Info("stopped")
	return err
}

// closeGate closes the gate, and shows it before anything else is stopped.
func (a *App) closeGate(err error) {
	if duplicate, found := errors.AsType[*fleet.DuplicateError](err); found {
		a.gate.Duplicate(duplicate.Error())
	} else {
		a.gate.Stop()
	}
	a.snapshot.Set(a.look())
}

// workers is a group of goroutines that end together.
type workers struct {
	group *errgroup.Group
	ctx   context.Context //nolint:containedctx // lives as long as Run, which owns it
	first *event.Value[error]
}

// group returns a group whose context does not end with ctx: Run ends it in its
// own order.
func group(ctx context.Context) (*workers, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &workers{group: &errgroup.Group{}, ctx: ctx, first: event.New[error](nil)}, cancel
}

// start runs a worker. That its context ended is no error.
func (w *workers) start(name string, run func(context.Context) error) {
	w.group.Go(func() error {
		err := run(w.ctx)
		if w.ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
			return nil
		}
		var duplicate *fleet.DuplicateError
		switch {
		case err == nil:
			err = fmt.Errorf("%s: ended unexpectedly", name)
		case !errors.As(err, &duplicate):
			err = fmt.Errorf("%s: %w", name, err)
		}
		w.first.Set(err)
		return err
	})
}

// failed returns a channel that closes when the first worker has failed.
func (w *workers) failed() <-chan struct{} {
	_, changed := w.first.Load()
	return changed
}

func (w *workers) err() error { return w.first.Get() }

// wait returns when all workers have ended, with an error that err did not
// know.
func (w *workers) wait() error {
	known := w.first.Get()
	if err := w.group.Wait(); known == nil {
		return err
	}
	return nil
}

// after returns a worker that starts when ready says true.
func after(ready *event.Value[bool], run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			ok, changed := ready.Load()
			if ok {
				return run(ctx)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed:
			}
		}
	}
}
