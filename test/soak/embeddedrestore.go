package soak

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// restoreQuorum is restoreStore for nodes that are their own quorum. It runs the commands
// of docs/clusters.md#restore. All sidecars are stopped or killed first, and the
// other nodes join again.
func (w *world) restoreQuorum(ctx context.Context, f fault) outcome {
	snapshot := filepath.Join(w.dir, fmt.Sprintf("snapshot-%d", f.how))
	if _, err := w.run(ctx, "cluster", "snapshot", snapshot, "--data-dir="+w.nodes[f.member].dataDir); err != nil {
		return skipped
	}
	pause(ctx, f.lasts)
	defer w.exclusive()()
	if ctx.Err() != nil {
		return skipped // near the end: a restore takes long
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), replacing)
	defer cancel()
	saved, err := backup.Verify(snapshot)
	if err != nil {
		w.fail(fmt.Errorf("snapshot: %w", err))
		return skipped
	}
	err = w.rec.newAge(limited, func(int64) int64 { return saved.Revision }, func() error { return w.restoreOnto(limited, f, snapshot) })
	if err == nil {
		err = w.startServers()
	}
	if err != nil {
		w.fail(fmt.Errorf("restore: %w", err))
		return skipped
	}
	pause(limited, noticed)
	w.rec.settle()
	return done
}

// restoreOnto stops everything, and makes a quorum of a snapshot on one node.
func (w *world) restoreOnto(ctx context.Context, f fault, snapshot string) error {
	if err := w.stopAll(ctx, f); err != nil {
		return err
	}
	at := f.how / 4 % w.shape.members
	first := w.nodes[at]
	args := append(first.machine.Wrapper(), filepath.Join(w.assets, "sidecar"), "cluster", "restore", snapshot,
		"--confirm-stopped", "--data-dir="+first.dataDir)
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("sidecar cluster restore: %w: %s", err, out)
	}
	if err := w.startAgain(ctx, first); err != nil {
		return err
	}
	for _, n := range w.nodes {
		if n == first {
			continue
		}
		if n.dataDir != "" {
			var err error
			if n.join, err = w.awaitToken(ctx, first, 1); err != nil {
				return err
			}
			if err := os.RemoveAll(n.dataDir); err != nil {
				return err
			}
		}
		if err := w.startAgain(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// stopAll ends the kube-apiservers and the sidecars.
func (w *world) stopAll(ctx context.Context, f fault) error {
	for _, s := range w.servers {
		if err := s.api.Kill(); err != nil {
			w.logf("kill kube-apiserver: %v", err)
		}
	}
	for _, n := range w.nodes {
		how := losingPower
		if f.how%4 < 2 && n.dataDir != "" {
			how = n.leave
		}
		if err := w.stop(n, how); err != nil {
			return err
		}
		w.renew(ctx, n)
	}
	return nil
}

// startAgain starts a node's sidecar, and waits for its member, if any.
func (w *world) startAgain(ctx context.Context, n *node) error {
	if err := w.start(n, n.release); err != nil || n.dataDir == "" {
		return err
	}
	return cluster.Poll(ctx, func(ctx context.Context) error { return w.isVoter(ctx, n) })
}
