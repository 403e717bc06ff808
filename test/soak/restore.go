package soak

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

const (
	// noticed is how long sidecars may take until they notice a restore: two
	// lease TTLs, after the etcd serves and they reach it.
	noticed = 2 * leaseTTL
	// restoring is the limit for the restore itself.
	restoring = 90 * time.Second
	// bump is far above the number of the soak's writes.
	bump = 1_000_000
)

// restoreStore restores etcd, and so the status, the records and all objects, from a
// snapshot that is a few seconds old. The kube-apiservers are started again, as
// etcd's documentation demands. No other fault of processes or connections happens
// until each sidecar had the time to notice it.
func (w *world) restoreStore(ctx context.Context, f fault) outcome {
	if w.network != nil {
		return w.restoreQuorum(ctx, f)
	}
	snapshot := filepath.Join(w.dir, fmt.Sprintf("snapshot-%d", f.how))
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	err := w.cluster.SaveSnapshot(limited, snapshot)
	cancel()
	if err != nil {
		return skipped
	}
	pause(ctx, f.lasts)
	defer w.exclusive()()
	if ctx.Err() != nil {
		return skipped // near the end: a restore takes long
	}
	restart := w.interrupt(f)
	limited, cancel = context.WithTimeout(context.WithoutCancel(ctx), restoring)
	defer cancel()
	raised := int64(0)
	if f.how%2 == 0 {
		raised = bump
	}
	err = w.rec.newAge(limited, func(now int64) int64 { return now - raised }, func() error {
		for _, s := range w.servers {
			if err := s.api.Kill(); err != nil {
				w.logf("kill kube-apiserver: %v", err)
			}
		}
		return w.cluster.RestoreMembers(limited, snapshot, raised)
	})
	if err != nil {
		w.fail(err)
		return skipped
	}
	for _, s := range w.servers {
		if err := w.startServer(s); err != nil {
			w.fail(err)
			return skipped
		}
	}
	restart()
	pause(context.WithoutCancel(ctx), noticed)
	w.rec.settle()
	return done
}

// exclusive keeps all other faults of processes and connections away, until the
// function that it returns is called.
func (w *world) exclusive() (end func()) {
	// First this one: faults that hold it may wait for nodes.
	w.etcdBusy.Lock()
	locks := []interface{ Unlock() }{&w.etcdBusy}
	for _, n := range w.nodes {
		n.network.Lock()
		n.busy.Lock()
		locks = append(locks, &n.network, &n.busy)
	}
	for _, s := range w.servers {
		s.busy.Lock()
		locks = append(locks, &s.busy)
	}
	w.lossBusy.Lock()
	w.dropBusy.Lock()
	locks = append(locks, &w.lossBusy, &w.dropBusy)
	return func() {
		for _, l := range locks {
			l.Unlock()
		}
	}
}

// interrupt lets some sidecars miss the restore: they are paused, or cut off from
// etcd. The others run on.
func (w *world) interrupt(f fault) (restart func()) {
	n := w.nodes[f.node]
	if n.sidecar == nil {
		return func() {}
	}
	switch f.how / 2 % 3 {
	case 0:
		process := n.sidecar.Process
		signal := func(s syscall.Signal) {
			if err := process.Signal(s); err != nil {
				w.logf("%v", err)
			}
		}
		signal(syscall.SIGSTOP)
		return func() { signal(syscall.SIGCONT) }
	case 1:
		for _, p := range n.members {
			p.Cut(etcdtest.Blackhole)
		}
		return func() {
			for _, p := range n.members {
				p.Restore()
			}
		}
	default:
		return func() {}
	}
}

// fail ends the run: something that the soak itself needs is broken.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken = err
	}
}
