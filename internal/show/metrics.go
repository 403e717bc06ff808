package show

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
)

// Register adds the metrics that are computed at each scrape, so that they cannot lag behind
// /status.
func (s *Show) Register(reg prometheus.Registerer, client *etcd.Client) {
	in := metric.In(reg)
	s.registerExpiry(in)
	s.registerState(in)
	s.registerServices(in)
	s.registerInfo(in)
	in.GaugeFunc("lockstep_cluster_unhealthy_voters",
		"Unhealthy voters of the etcd that the sidecars run. Start their sidecars, or replace them: without a majority, etcd accepts no writes.",
		func() float64 {
			_, unhealthy := voters(s.Cluster.Members().Get())
			return float64(len(unhealthy))
		})
	s.registerDatabase(in)
	s.registerContact(in, client)
	in.CounterFunc("lockstep_etcd_watch_differences_total",
		"How often a watch had not reported a change a second after a linearizable read had. A few on a slow machine are harmless; if it rises again and again, etcd loses events: see the versions with known faults in /status.",
		func() float64 { return float64(client.WatchDifferences()) })
	in.CounterFunc("lockstep_etcd_went_back_total",
		"How often etcd went back to an older state, as after a restore from a backup. It must not rise by itself: see docs/operations.md#restore-etcd.",
		func() float64 { return float64(client.Rewound().Get()) })
	in.GaugeFunc("lockstep_fleet_controllers",
		"Registered nodes with the role kubernetes_controller and a valid record.",
		func() float64 { return float64(s.summary().Controllers) })
	in.GaugeFunc("lockstep_fleet_corrupt_records",
		"Node records that cannot be decoded. Each blocks the next change of the objects: see /status.",
		func() float64 { return float64(s.summary().Corrupt) })
	s.registerTurns(in)
	in.GaugeFunc("lockstep_fleet_controllers_without_gate",
		"Live controllers that report no gate. Above 0, two sidecars may have one node ID: see the warnings in /status.",
		func() float64 { return count(s.Fleet.Get().Records, upgrade.LacksGate) })
	in.GaugeFunc("lockstep_fleet_controllers_not_publishing",
		"Controllers in service whose sidecars run without --kubernetes-service, while others run with it. Above 0, pods may not reach them: see the warnings in /status.",
		func() float64 { return float64(len(publish.Outside(s.Fleet.Get()))) })
	in.GaugeFunc("lockstep_fleet_bundle_mismatches",
		"Releases whose registered nodes run different bundles. Above 0, the objects depend on which node leads: give all nodes in /status the same bundle.",
		func() float64 { return float64(len(upgrade.Mismatched(s.Fleet.Get()))) })
	s.registerDifferences(in)
	in.GaugeFunc("lockstep_reconcile_bundle_rejected",
		"1 while the bundle in --bundle is not in use: it is invalid, or has another name, release or constraints. The last valid one stays in use. See node.bundleProblem in /status.",
		func() float64 { return metric.Bool(s.bundleProblem() != "") })
	in.GaugeFunc("lockstep_status_gate_override_end_timestamp_seconds",
		"When the override of this node's gate ends; 0: there is none. See docs/operations.md#break-glass.",
		func() float64 { return metric.Timestamp(s.Override.Get().Until) })
	s.registerReadyz(in)
	in.GaugeFunc("lockstep_fleet_upgrade_ready",
		"1 while the next upgrade may start. If it is 0, upgradeObstacles in /status lists the reasons.",
		func() float64 { return metric.Bool(httpapi.UpgradeReady(s.now())) })
	in.GaugeFunc("lockstep_fleet_rollback_end_timestamp_seconds",
		"When the rollback ends by its time; 0: none is under way. Until then only nodes of its release lead: see docs/operations.md#roll-back.",
		func() float64 { return metric.Timestamp(s.Fleet.Get().Rollback.Until) })
}

// registerContact adds the metrics of this sidecar's contact with etcd.
func (s *Show) registerContact(in metric.Set, client *etcd.Client) {
	in.GaugeFunc("lockstep_etcd_connected",
		"1 while etcd answers. While it is 0, an open gate stays open, and no leader is elected.",
		func() float64 { return metric.Bool(s.Contact.Get().Connected) })
	in.GaugeFunc("lockstep_etcd_last_contact_timestamp_seconds",
		"When etcd last answered; 0: never. While etcd answers, it is at most about half of --lease-ttl ago.",
		func() float64 { return metric.Timestamp(s.Contact.Get().Last) })
	in.GaugeFunc("lockstep_etcd_lease_left_seconds",
		"How long this sidecar's leases in etcd are certain to live; 0: one has ended, or there is none. They are renewed when about half is left: if it falls much lower, renewals fail, and at 0 a leader stops leading; check etcd.",
		func() float64 { left, _ := client.ShortestLease(); return left.Seconds() })
}

// registerDatabase adds the metrics of the databases of etcd members, and of their snapshots.
func (s *Show) registerDatabase(in metric.Set) {
	in.GaugeFunc("lockstep_cluster_database_used_ratio",
		"Share of its quota that the fullest member of the etcd that the sidecars run has used, from 0 to 1. From 0.8 on, delete unneeded data and type sidecar cluster defrag: at 1, etcd refuses writes.",
		func() float64 {
			var most int64
			for _, m := range s.Cluster.Members().Get() {
				most = max(most, usedQuota(m))
			}
			return float64(most) / 100
		})
	s.registerSnapshots(in)
}

// registerDifferences adds the metrics of differences between nodes that should not exist.
func (s *Show) registerDifferences(in metric.Set) {
	in.GaugeFunc("lockstep_fleet_services_mismatches",
		"Releases whose live nodes run different services. Above 0, give the nodes in /status the same files in --services.",
		func() float64 { return float64(len(upgrade.MismatchedServices(s.Fleet.Get()))) })
	in.GaugeFunc("lockstep_fleet_apiserver_mismatches",
		"Releases whose live nodes run kube-apiservers of different versions. Above 0, an old kube-apiserver may serve beside a new sidecar: /status names the nodes.",
		func() float64 { return float64(len(upgrade.MismatchedAPIServers(s.Fleet.Get()))) })
	in.GaugeFunc("lockstep_fleet_clock_difference_seconds",
		"How far the clock of another node differs from this one's; 0: less than 5 s. /status names the node: correct the wrong clock.",
		func() float64 { return s.Clocks.Get().Largest.Seconds() })
}

// count counts the elements of a list for which is is true.
func count[E any](all []E, is func(E) bool) (n float64) {
	for _, e := range all {
		n += metric.Bool(is(e))
	}
	return n
}

func (s *Show) summary() protocol.Summary {
	return protocol.Summarize(s.Fleet.Get(), s.Local.Get().Version.Release)
}
