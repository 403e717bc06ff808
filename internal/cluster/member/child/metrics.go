package child

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

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
