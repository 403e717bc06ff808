package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
)

// Run runs the sidecar until ctx ends, and stops it in order: the gate closes
// first, then the node stops leading, then the shutdown delay passes, during which
// the API still answers, then the node's services stop, then the presence is deleted,
// with an ephemeral record, and last this node's etcd member stops. It returns nil when ctx ended, and otherwise
// why the sidecar cannot go on.
func (a *App) Run(ctx context.Context) error {
	if !a.used.CompareAndSwap(false, true) {
		return errors.New("this sidecar has already run, or was closed: make a new one")
	}
	// Five groups. Each runs longer than the one after it: this node's etcd member,
	// the API and what it shows, this node's presence, its record, and the election.
	member, stopMember := group(ctx)
	defer stopMember()
	serving, stopServing := group(ctx)
	defer stopServing()
	present, stopPresent := group(ctx)
	defer stopPresent()
	registered, stopRegistered := group(ctx)
	defer stopRegistered()
	leading, stopLeading := group(ctx)
	defer stopLeading()

	a.startServing(member, serving)
	present.start("shown", a.keepShown)
	present.start("presence", a.inCluster(a.presence.Run))
	registered.start("registrar", a.inCluster(a.registrar.Run))
	// A sidecar whose node ID belongs to another one must not campaign. So the
	// election waits for the presence (docs/protocol.md#duplicate-ids).
	leading.start("election", after(a.presence.Lease(), a.election.Run))
	a.log.Info("started", "url", a.URL(), "version", a.local.Get().Version.String(), "digest", a.local.Get().Digest)

	select {
	case <-ctx.Done():
	case <-member.failed():
	case <-serving.failed():
	case <-present.failed():
	case <-registered.failed():
	case <-leading.failed():
	}
	stopped := time.Now()
	failed := func() error {
		return errors.Join(member.err(), serving.err(), present.err(), registered.err(), leading.err())
	}
	a.closeGate(ctx, failed())

	leading.end(stopLeading)
	a.log.Info("not leading any more")
	if ctx.Err() != nil {
		<-time.After(time.Until(stopped.Add(a.cfg.ShutdownDelay)))
	}
	a.stopServices(ctx)
	facts := a.awaitLeaving(ctx, stopped)
	registered.end(stopRegistered)
	a.leave(ctx, facts)
	present.end(stopPresent)
	serving.end(stopServing)
	member.end(stopMember)
	err := errors.Join(failed(), a.unlock(), a.etcd.Close())
	a.log.Info("stopped")
	return err
}

// startServing starts the way into the cluster, the API, and what it shows.
func (a *App) startServing(member, serving *workers) {
	member.start("cluster", a.cluster.Run)
	serving.start("api", func(ctx context.Context) error { return a.server.Run(ctx, a.listener) })
	serving.start("liveness", a.live.run)
	serving.start("snapshot", a.keepSnapshot)
	serving.start("roles", a.roles.Run)
	serving.start("gate", a.gate.Run)
	serving.start("status", a.store.Run)
	serving.start("fleet", a.follower.Run)
	serving.start("etcd servers", a.watchEtcdServers)
	serving.start("kubeconfig", a.kubeconfig.run)
	serving.start("certificates", a.watchCertificates)
	serving.start("check", func(ctx context.Context) error { return a.etcd.KeepChecking(ctx, a.cfg.LeaseTTL) })
	serving.start("bundle", a.watchBundle)
	serving.start("digests", a.watchDigests)
	serving.start("warnings", a.keepWarnings)
	serving.start("etcd problem", a.watchEtcdProblem)
	if a.cfg.APIServerReadyz {
		serving.start("apiserver", func(ctx context.Context) error { return pollAPIServer(ctx, a.kubeconfig.transport, a.apiserver) })
	}
}

// showLimit bounds how long closeGate waits for the API to show the verdict.
const showLimit = time.Second

// closeGate closes the gate and returns when /readyz shows it. Nothing else stops
// before.
func (a *App) closeGate(ctx context.Context, err error) {
	if duplicate, found := errors.AsType[*fleet.DuplicateError](err); found {
		a.gate.Duplicate(duplicate.Error())
	} else {
		a.gate.Stop()
	}
	// ctx may be over already; this wait has a limit of its own.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), showLimit)
	defer cancel()
	_ = a.awaitShown(ctx) // stopping goes on either way
}

// workers is a group of goroutines that end together.
type workers struct {
	group sync.WaitGroup
	ctx   context.Context //nolint:containedctx // lives as long as Run, which owns it
	// broken ends when the first worker has failed; its cause is why.
	broken context.Context //nolint:containedctx // as above
	fail   context.CancelCauseFunc
}

// group returns a group whose context does not end with ctx: Run ends the groups in
// order.
func group(ctx context.Context) (*workers, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	w := &workers{}
	w.broken, w.fail = context.WithCancelCause(ctx)
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(ctx)
	return w, cancel
}

// start runs a worker. That its context ended is no error.
func (w *workers) start(name string, run func(context.Context) error) {
	w.group.Go(func() {
		err := run(w.ctx)
		if w.ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
			return
		}
		_, duplicate := errors.AsType[*fleet.DuplicateError](err)
		switch {
		case err == nil:
			err = fmt.Errorf("%s: ended unexpectedly", name)
		case !duplicate: // whose message is complete
			err = fmt.Errorf("%s: %w", name, err)
		}
		w.fail(err)
	})
}

// failed returns a channel that is closed once a worker has failed.
func (w *workers) failed() <-chan struct{} { return w.broken.Done() }

// err returns why the first worker failed; nil: none has.
func (w *workers) err() error { return context.Cause(w.broken) }

// end stops all workers, and returns when they have ended.
func (w *workers) end(stop context.CancelFunc) {
	stop()
	w.group.Wait()
}

// after returns a worker that starts when ready has a value.
func after[T comparable](ready *event.Value[T], run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var none T
		for {
			now, readyChanged := ready.Load()
			if now != none {
				return run(ctx)
			}
			if !event.Wait(ctx, readyChanged) {
				return ctx.Err()
			}
		}
	}
}
