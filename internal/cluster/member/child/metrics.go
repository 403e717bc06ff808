package child

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// The metrics of etcd that the parent gets.
const (
	fsyncMetric   = "etcd_disk_wal_fsync_duration_seconds"
	commitMetric  = "etcd_disk_backend_commit_duration_seconds"
	leadersMetric = "etcd_server_leader_changes_seen_total"
)

// measure reports etcd's measures to the parent again and again, until ctx ends. Each time it calls also first.
func (c *child) measure(ctx context.Context, pause time.Duration, also func()) {
	for backoff.Sleep(ctx, pause) {
		also()
		if now, err := measured(); err == nil { // else the next time
			c.send(member.Message{Event: member.Measured, Measures: &now})
		}
	}
}

// measured reads etcd's own metrics of this process.
func measured() (out member.Measures, err error) {
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		return out, err
	}
	durations := map[string]*member.Durations{fsyncMetric: &out.Fsync, commitMetric: &out.Commit}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if d := durations[family.GetName()]; d != nil {
				h := m.GetHistogram()
				d.Count, d.Sum = h.GetSampleCount(), h.GetSampleSum()
				for _, b := range h.GetBucket() {
					d.Buckets = append(d.Buckets, member.DurationBucket{UpTo: b.GetUpperBound(), Count: b.GetCumulativeCount()})
				}
			}
			if family.GetName() == leadersMetric {
				out.LeaderChanges = uint64(m.GetCounter().GetValue())
			}
		}
	}
	return out, nil
}
