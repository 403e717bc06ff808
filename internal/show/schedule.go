package show

import (
	"time"

	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

func (s *Show) snapshotWarnings() []protocol.Warning {
	if w, warns := s.Schedule.Get().Warning(time.Now()); warns {
		return []protocol.Warning{w}
	}
	return nil
}

func (s *Show) snapshotsNow() report.Snapshots {
	now := s.Schedule.Get()
	return report.Snapshots{
		EverySeconds: now.Every.Seconds(), Kept: now.Kept, Newest: report.At(now.Newest), File: now.File, Problem: now.Problem,
	}
}

func (s *Show) registerSnapshots(in metric.Set) {
	in.GaugeFunc("lockstep_cluster_snapshot_interval_seconds",
		"Time between two snapshots that this node saves by itself (--snapshot-every); 0: it saves none, or its etcd member does not vote.",
		func() float64 {
			if now := s.Schedule.Get(); now.Runs() {
				return now.Every.Seconds()
			}
			return 0
		})
	in.GaugeFunc("lockstep_cluster_snapshot_newest_timestamp_seconds",
		"When the newest of these snapshots was saved; 0: there is none. If it is older than two intervals, cluster.snapshots in /status has the reason.",
		func() float64 { return metric.Timestamp(s.Schedule.Get().Newest) })
}
