package app

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/report"
)

// This file schedules the snapshots that this node saves by itself (docs/clusters.md#scheduled).

func (a *App) newSchedule() *backup.Schedule {
	return backup.NewSchedule(backup.ScheduleConfig{
		Plan: a.cfg.Snapshots, Client: a.etcd, Votes: a.hasVoter, DatabaseSize: a.databaseSize, Log: a.log.With("worker", "snapshots"),
	})
}

// keepSnapshots saves snapshots until ctx ends, if --snapshot-every is set.
func (a *App) keepSnapshots(ctx context.Context) error {
	if a.cfg.Snapshots.Every == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		_, membersChanged := a.cluster.Members().Load()
		_, phaseChanged := a.cluster.Membership().Load()
		if a.hasVoter() {
			return a.schedule.Run(ctx)
		}
		if !event.Wait(ctx, membersChanged, phaseChanged) {
			return ctx.Err()
		}
	}
}

// hasVoter reports whether this node runs a voting member. Then it holds the key of the CA, which a
// restore needs.
func (a *App) hasVoter() bool {
	own := func(m cluster.Observed) bool { return m.Node == string(a.id.node) && !m.Learner }
	return a.cluster.Membership().Get().Phase == membership.Working && slices.ContainsFunc(a.cluster.Members().Get(), own)
}

func (a *App) databaseSize() int64 {
	size, err := datadir.Layout(a.dataDir()).DatabaseSize()
	if err != nil { // etcd has just started: the database is small
		return 0
	}
	return size
}

func (a *App) snapshotWarnings() []protocol.Warning {
	if w, warns := a.schedule.State().Get().Warning(time.Now()); warns {
		return []protocol.Warning{w}
	}
	return nil
}

func (a *App) snapshotsNow() report.Snapshots {
	now := a.schedule.State().Get()
	return report.Snapshots{
		EverySeconds: now.Every.Seconds(), Kept: now.Kept, Newest: report.At(now.Newest), File: now.File, Problem: now.Problem,
	}
}

func (a *App) registerSnapshots(gauge func(name, help string, value func() float64)) {
	gauge("lockstep_cluster_snapshot_interval_seconds",
		"Time between two snapshots of etcd that this node saves by itself (--snapshot-every); 0: it saves none, or its etcd member does not vote.",
		func() float64 {
			if now := a.schedule.State().Get(); now.Runs() {
				return now.Every.Seconds()
			}
			return 0
		})
	gauge("lockstep_cluster_snapshot_newest_timestamp_seconds",
		"When the newest of these snapshots was saved; 0: there is none. If it is older than two intervals, cluster.snapshots in /status has the reason.",
		func() float64 {
			if newest := a.schedule.State().Get().Newest; !newest.IsZero() {
				return float64(newest.UnixMilli()) / 1e3
			}
			return 0
		})
}
