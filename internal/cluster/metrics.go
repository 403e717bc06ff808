package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// memberMetrics pass on the measures of etcd, which runs in its own process.
type memberMetrics struct {
	measures               *event.Value[member.Measures]
	fsync, commit, leaders *prometheus.Desc
}

// registerMeasures registers nothing if the registerer is nil.
func registerMeasures(r prometheus.Registerer, measures *event.Value[member.Measures]) {
	if r == nil {
		return
	}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("lockstep_cluster_"+name, help, nil, nil)
	}
	r.MustRegister(memberMetrics{
		measures: measures,
		fsync:    desc("member_fsync_seconds", "How long this node's etcd member took to write its log to the disk. Each write of the cluster waits for that on a majority: 0.1 s is too long."),
		commit:   desc("member_commit_seconds", "How long this node's etcd member took to commit its database to the disk."),
		leaders:  desc("member_leader_changes_total", "Leaders of the embedded etcd that this node's member has seen. If it grows without an upgrade, check the disks and the network of the members."),
	})
}

// Describe implements prometheus.Collector.
func (m memberMetrics) Describe(c chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, c) }

// Collect implements prometheus.Collector.
func (m memberMetrics) Collect(c chan<- prometheus.Metric) {
	now := m.measures.Get()
	histogram := func(desc *prometheus.Desc, d member.Durations) {
		buckets := make(map[float64]uint64, len(d.Buckets))
		for _, b := range d.Buckets {
			buckets[b.UpTo] = b.Count
		}
		c <- prometheus.MustNewConstHistogram(desc, d.Count, d.Sum, buckets)
	}
	histogram(m.fsync, now.Fsync)
	histogram(m.commit, now.Commit)
	c <- prometheus.MustNewConstMetric(m.leaders, prometheus.CounterValue, float64(now.LeaderChanges))
}
