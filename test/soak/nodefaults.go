package soak

import (
	"context"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// disturbNode causes the faults of a node's bundle, its ID, or the whole node.
func (w *world) disturbNode(ctx context.Context, n *node, f fault) outcome {
	switch f.kind {
	case reloadBundle:
		return w.reload(n)
	case loseNode:
		return w.killSidecar(ctx, n, expireAfter+f.lasts, f.crash())
	case isolateNode:
		return held(&n.network, func() outcome { return w.isolate(ctx, n, expireAfter+f.lasts) })
	default:
		return w.startDuplicate(ctx, n, f.lasts)
	}
}

// isolate cuts a node off from etcd. If it runs a member of its own, that is cut off from
// the others.
func (w *world) isolate(ctx context.Context, n *node, d time.Duration) outcome {
	if n.machine != nil {
		l := links{}
		l.add(n, w.nodes, bothWays)
		return held(&w.etcdBusy, func() outcome { return w.cutWhile(ctx, l, d) })
	}
	for _, p := range n.members {
		p.Cut(etcdtest.Blackhole)
	}
	pause(ctx, d)
	for _, p := range n.members {
		p.Restore()
	}
	return done
}

// reload replaces the bundle of the release that a node runs. Every node of that
// release loads the new one.
func (w *world) reload(n *node) outcome {
	return held(&n.busy, func() outcome {
		if n.release < 0 {
			return skipped
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		next := 1 - w.build[n.release]
		if err := selectBuild(w.bundles(), n.release, next); err != nil {
			w.logf("replace the bundle: %v", err)
			return skipped
		}
		w.build[n.release] = next
		return done
	})
}

// startElsewhere starts a sidecar with another etcd prefix and the same API. It uses
// another store, so it must leave the objects alone. Meanwhile, the parent of the
// set is not deleted: without it, the API does not show whose it is.
func (w *world) startElsewhere(ctx context.Context, n *node, d time.Duration) outcome {
	// Not Lock: who holds it may wait for this fault to end.
	if w.bothExist(ctx) != nil || !n.busy.TryLock() {
		return skipped
	}
	cfg := w.secondConfig(n, newest())
	n.busy.Unlock()
	cfg.NodeID, cfg.EtcdPrefix, cfg.EtcdServers = "elsewhere", "/locksteq/", w.endpoints()
	s, err := w.cluster.StartSidecar(cfg)
	if err != nil {
		w.logf("start a sidecar with another prefix: %v", err)
		return skipped
	}
	pause(ctx, d+leaseTTL)
	if err := s.Kill(); err != nil {
		w.logf("kill the sidecar with another prefix: %v", err)
	}
	return done
}

// buildOf is the build of a release that sidecars load.
func (w *world) buildOf(index int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.build[index]
}

// startDuplicate starts a second sidecar with a node's ID, on the same machine and with
// the same release. The newer one stays: the first exits and is started again, which
// ends the second.
func (w *world) startDuplicate(ctx context.Context, n *node, d time.Duration) outcome {
	if !n.busy.TryLock() {
		return skipped
	}
	index, instance := n.release, n.started+1
	if n.sidecar == nil {
		n.busy.Unlock()
		return skipped
	}
	n.started = instance
	n.duplicates++
	id, cfg := n.name(), w.secondConfig(n, index)
	n.busy.Unlock()
	defer func() {
		n.busy.Lock()
		defer n.busy.Unlock()
		n.duplicates--
		n.duplicated = time.Now()
	}()
	duplicate, err := w.cluster.StartSidecar(cfg)
	if err != nil {
		w.logf("start a second %s: %v", id, err)
		return skipped
	}
	probing, stop := context.WithCancel(ctx)
	defer stop()
	w.running.Go(func() { w.probe(probing, id, instance, index, 0, duplicate) })
	pause(ctx, d)
	if err := duplicate.Kill(); err != nil {
		w.logf("kill the second %s: %v", id, err)
	}
	return done
}
