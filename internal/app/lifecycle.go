package app

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/supervise"
)

// Run runs the sidecar until ctx ends, and stops it in order: it closes the gate, waits until the
// node's address has left the Service kubernetes, gives up the leadership, waits for the shutdown
// delay, during which the API still answers, stops the node's services, deletes the presence, and
// an ephemeral record with it, and last stops this node's etcd member. It returns nil when ctx
// ended, and otherwise why the sidecar cannot continue.
func (a *App) Run(ctx context.Context) error {
	if !a.used.CompareAndSwap(false, true) {
		return errors.New("this sidecar has already run, or was closed: make a new one")
	}
	// The etcd member runs longer than the API and its workers, and these longer than the node itself
	// (package role).
	member := supervise.NewGroup(ctx)
	defer member.End()
	serving := supervise.NewGroup(ctx)
	defer serving.End()
	a.startServing(member, serving)
	a.log.Info("sidecar started", "url", a.URL(), "version", a.local.Get().Version.String(), "digest", a.local.Get().Digest)
	err := a.roles.Run(ctx, member, serving)
	serving.End()
	member.End()
	err = errors.Join(supervise.Err(member, serving), err)
	if err != nil {
		a.keepRecording()
	}
	err = errors.Join(err, a.unlock(), a.etcd.Close())
	a.registries.release()
	a.log.Info("stopped")
	return err
}

// startServing starts the cluster manager, the API, and the workers that follow the facts that it
// shows.
func (a *App) startServing(member, serving *supervise.Group) {
	member.Start("cluster", a.supervisor.Contain("cluster", a.cluster.Run))
	serving.Start("api", func(ctx context.Context) error { return a.server.Run(ctx, a.listener) })
	keep := func(name string, run supervise.Worker) { serving.Start(name, a.supervisor.Keep(name, run, nil)) }
	keep("liveness", a.live.run)
	keep("snapshot", a.keepSnapshot)
	keep("status", a.store.Run)
	keep("fleet", a.follower.Run)
	keep("etcd-servers", a.watchEtcdServers)
	keep("kubeconfig", a.kubeconfig.run)
	for _, k := range a.reviewKubeconfigs {
		keep("review-kubeconfig", k.run)
	}
	keep("apiserver-version", a.pollVersion)
	keep("other-apiserver", a.keepOtherAPIServer)
	keep("certificates", a.watchCertificates)
	keep("check", func(ctx context.Context) error { return a.etcd.KeepChecking(ctx, a.cfg.LeaseTTL) })
	keep("bundle", a.watchBundle)
	keep("digests", a.watchDigests)
	keep("warnings", a.keepWarnings)
	keep("clocks", a.watchClocks)
	keep("override", a.keepOverride)
	keep("happenings", a.keepHistory)
	keep("history", a.journal.Run)
	if a.events != nil {
		keep("events", a.events.Run)
	}
	keep("etcd-problem", a.watchEtcdProblem)
	if a.cfg.Embedded != nil {
		keep("servers", a.inCluster(a.followServers))
		keep("member-health", a.watchMember)
		keep("snapshots", a.inCluster(a.keepSnapshots))
	}
	keep("turns", a.inCluster(a.keepTurns))
	if a.cfg.Services != "" {
		keep("service-turns", a.inCluster(a.keepServiceTurns))
	}
	if a.publisher != nil {
		keep("endpoints", a.publisher.Run)
	}
	if a.cfg.APIServerReadyz {
		keep("apiserver", a.pollAPIServer)
	}
}

// showLimit bounds how long closeGate waits for the API to show the verdict.
const showLimit = time.Second

// closeGate closes the gate and returns when /readyz shows it. It runs before all other steps of a
// stop.
func (a *App) closeGate(ctx context.Context, err error) {
	if duplicate, found := errors.AsType[*fleet.DuplicateError](err); found {
		a.gate.Duplicate(duplicate.Error())
	} else {
		a.gate.Stop()
	}
	// ctx may have ended already, so this wait uses its own limit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), showLimit)
	defer cancel()
	_ = a.awaitShown(ctx) // the stop continues either way
}

// after returns a worker that waits until ready is not zero, and then runs.
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
