package app

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// A member's measurements become warnings in the presence, for all nodes: of a slow disk, and of leaders
// that change often.
func TestWatchMember(t *testing.T) {
	server, _, api := ledByNewer(t)
	s := start(t, configure(t, server.Endpoints()[0], api))
	s.awaitReason(protocol.Ready)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.app.cluster.RunHealth(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })

	slow := member.Durations{Count: 2, Buckets: []member.DurationBucket{{UpTo: 2.048}, {UpTo: 4.096, Count: 2}}}
	s.app.cluster.Measures().Set(member.Measures{Fsync: slow, LeaderChanges: 2})
	s.awaitOwn("the slow disk in the presence", func(n report.FleetNode) bool {
		return slices.ContainsFunc(n.Warnings, func(w report.Warning) bool {
			return w.Reason == "DiskSlow" && strings.Contains(w.Message, "took 2s or longer")
		})
	})

	s.app.cluster.Measures().Set(member.Measures{Fsync: slow, LeaderChanges: 6})
	s.awaitOwn("the leaders in the presence", func(n report.FleetNode) bool {
		return slices.ContainsFunc(n.Warnings, func(w report.Warning) bool {
			return w.Reason == "EtcdLeaderChanges" && w.Subject == "" && strings.Contains(w.Message, "changed 5 times within the last 10 minutes")
		})
	})

	leaving := cluster.Observed{Member: report.Member{ID: "1", Node: "gone", Healthy: true}, LeavingSince: report.At(time.Now().Add(-time.Hour))}
	s.app.cluster.Members().Set([]cluster.Observed{leaving})
	s.awaitFleet("the removal that was interrupted", func(r report.Status) bool {
		return slices.ContainsFunc(r.Warnings, func(w report.Warning) bool {
			return w.Reason == "RemovalInterrupted" && w.Subject == "gone" && strings.Contains(w.Message, "type: sidecar cluster remove gone")
		})
	})
}
