package app

import (
	"cmp"
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/report"
)

// clusterNow returns the state of the cluster manager and of this node's member.
func (a *App) clusterNow() httpapi.Cluster {
	now, members, problem := a.cluster.Status().Get(), a.cluster.Members().Get(), a.memberProblem()
	out := httpapi.Cluster{
		Cluster: report.Cluster{
			State: string(now.State), Since: report.At(now.Since), Transitions: now.Transitions, Error: cmp.Or(now.Problem, problem),
			Rotation: a.cluster.Rotation().Get().Rotation, Snapshots: a.snapshotsNow(),
		},
		Embedded:      a.cfg.Embedded != nil && a.cluster.Membership().Get().Phase != membership.WithoutMember,
		MemberProblem: problem, Voters: nodeVoters(members, a.warned.Get().troubles),
	}
	for _, m := range members {
		out.Members = append(out.Members, m.Member)
	}
	return out
}

// inCluster returns a worker that, if the sidecars run etcd, waits until the manager has reached
// the cluster, and then runs. Before that, the data directory may be another sidecar's: with its
// certificates this one would reach the same etcd, and take over the node ID
// (docs/protocol.md#duplicate-ids).
func (a *App) inCluster(run supervise.Worker) supervise.Worker {
	if a.cfg.Embedded == nil {
		return run
	}
	return func(ctx context.Context) error {
		if err := a.cluster.WaitFinished(ctx); err != nil {
			<-ctx.Done() // the state Failed ends the sidecar
			return ctx.Err()
		}
		return run(ctx)
	}
}

// dataDir returns the directory of this node's member; empty: etcd runs elsewhere.
func (a *App) dataDir() string {
	if a.cfg.Embedded == nil {
		return ""
	}
	return a.cfg.Embedded.DataDir
}

// stateMetric is 1 for the current state of the cluster manager, and 0 for all others.
type stateMetric struct {
	app  *App
	desc *prometheus.Desc
}

func newStateMetric(a *App) stateMetric {
	return stateMetric{a, prometheus.NewDesc("lockstep_cluster_state",
		"1 for the state in which this sidecar is on its way into its etcd cluster, 0 for the others. It must become Running: see cluster.error in /status.",
		[]string{"state"}, nil)}
}

// Describe implements prometheus.Collector.
func (m stateMetric) Describe(c chan<- *prometheus.Desc) { c <- m.desc }

// Collect implements prometheus.Collector.
func (m stateMetric) Collect(c chan<- prometheus.Metric) {
	now := m.app.cluster.Status().Get().State
	for _, state := range cluster.States() {
		c <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, boolean[state == now], string(state))
	}
}
