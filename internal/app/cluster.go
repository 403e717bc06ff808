package app

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/trusted"
)

// This file schedules the snapshots that this node saves by itself (docs/clusters.md#scheduled).

// keepSnapshots saves snapshots until ctx ends, if --snapshot-every is set.
func (a *App) keepSnapshots(ctx context.Context) error {
	if a.cfg.Snapshots.Every == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	if problem := trusted.NewFileProblem(filepath.Join(a.cfg.Snapshots.Dir, "snapshot")); problem != "" {
		a.log.Warn("others can replace the snapshots, and with them what a restore brings back", "problem", problem)
	}
	for {
		changes := event.Changes(a.cluster.Members(), a.cluster.Membership())
		if a.cluster.HasVoter() {
			return a.schedule.Run(ctx)
		}
		if !event.Wait(ctx, changes...) {
			return ctx.Err()
		}
	}
}

func (a *App) databaseSize() int64 {
	size, err := datadir.Layout(a.dataDir()).DatabaseSize()
	if err != nil { // etcd has just started: the database is small
		return 0
	}
	return size
}

// dataDir returns the directory of this node's member; empty: etcd runs elsewhere.
func (a *App) dataDir() string {
	if a.cfg.Embedded == nil {
		return ""
	}
	return a.cfg.Embedded.DataDir
}

// issues reports whether this sidecar issues and renews a certificate itself: one of an etcd
// cluster that the sidecars run.
func (a *App) issues(file string) bool {
	return a.cfg.Embedded != nil && strings.HasPrefix(file, a.cfg.Embedded.DataDir+string(filepath.Separator))
}

// joined reports whether this sidecar has reached its cluster.
func (a *App) joined() (bool, <-chan struct{}) {
	now, changed := a.cluster.Status().Load()
	return now.State == cluster.Running, changed
}
