package app

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/trusted"
)

// This file schedules the snapshots that this node saves by itself (docs/clusters.md#scheduled).

func (p *parts) newSchedule() *backup.Schedule {
	return backup.NewSchedule(backup.ScheduleConfig{
		Plan: p.cfg.Snapshots, Client: p.etcd, Votes: p.cluster.HasVoter, DatabaseSize: p.databaseSize,
		Log: p.log.With("worker", "snapshots"),
	})
}

// keepSnapshots saves snapshots until ctx ends, if --snapshot-every is set.
func (p *parts) keepSnapshots(ctx context.Context) error {
	if p.cfg.Snapshots.Every == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	if problem := trusted.NewFileProblem(filepath.Join(p.cfg.Snapshots.Dir, "snapshot")); problem != "" {
		p.log.Warn("others can replace the snapshots, and with them what a restore brings back", "problem", problem)
	}
	for {
		changes := event.Changes(p.cluster.Members(), p.cluster.Membership())
		if p.cluster.HasVoter() {
			return p.schedule.Run(ctx)
		}
		if !event.Wait(ctx, changes...) {
			return ctx.Err()
		}
	}
}

func (p *parts) databaseSize() int64 {
	size, err := datadir.Layout(p.dataDir()).DatabaseSize()
	if err != nil { // etcd has just started: the database is small
		return 0
	}
	return size
}

// dataDir returns the directory of this node's member; empty: etcd runs elsewhere.
func (p *parts) dataDir() string {
	if p.cfg.Embedded == nil {
		return ""
	}
	return p.cfg.Embedded.DataDir
}

// issues reports whether this sidecar issues and renews a certificate itself: one of an etcd
// cluster that the sidecars run.
func (p *parts) issues(file string) bool {
	return p.cfg.Embedded != nil && strings.HasPrefix(file, p.cfg.Embedded.DataDir+string(filepath.Separator))
}

// joined reports whether this sidecar has reached its cluster.
func (p *parts) joined() (bool, <-chan struct{}) {
	now, changed := p.cluster.Status().Load()
	return now.State == cluster.Running, changed
}
