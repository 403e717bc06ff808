package show

import (
	"cmp"

	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/report"
)

// clusterNow returns the state of the cluster manager and of this node's member.
func (s *Show) clusterNow() httpapi.Cluster {
	now, members, problem := s.Cluster.Status().Get(), s.Cluster.Members().Get(), s.memberProblem()
	out := httpapi.Cluster{
		Cluster: report.Cluster{
			State: string(now.State), Since: report.At(now.Since), Transitions: now.Transitions, Error: cmp.Or(now.Problem, problem),
			Rotation: s.Cluster.Rotation().Get().Rotation, Snapshots: s.snapshotsNow(),
		},
		Embedded:      s.cfg.DataDir != "" && s.Cluster.Membership().Get().Phase != membership.WithoutMember,
		MemberProblem: problem, Voters: nodeVoters(members, s.warned.Get().troubles), Removed: s.Cluster.Removed().Get(),
	}
	for _, m := range members {
		out.Members = append(out.Members, m.Member)
	}
	return out
}

// registerState adds a metric that is 1 for the current state of the cluster manager, and 0 for all others.
func (s *Show) registerState(in metric.Set) {
	in.GaugeSeries("lockstep_cluster_state",
		"1 for this sidecar's state on its way into its etcd cluster. It must become Running: see cluster.error in /status.",
		[]string{"state"}, func(add metric.Series) {
			now := s.Cluster.Status().Get().State
			for _, state := range cluster.States() {
				add(metric.Bool(state == now), string(state))
			}
		})
}
