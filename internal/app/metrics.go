package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/protocol"
)

// registerMetrics adds what is read from facts at the time of the scrape, so
// that no metric can lag behind /status.
func (a *App) registerMetrics(reg prometheus.Registerer) {
	gauge := func(name, help string, value func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("lockstep_etcd_connected",
		"1 while the last request to etcd was answered. While it is 0, a gate that is ready stays so, and no leader is elected.",
		func() float64 { return boolean[a.etcd.Contact().Get().Connected] })
	gauge("lockstep_etcd_last_contact_timestamp_seconds",
		"When etcd last answered; 0: never. time() minus this is how stale the view is: about a third of --lease-ttl at the most while etcd answers.",
		func() float64 {
			if last := a.etcd.Contact().Get().Last; !last.IsZero() {
				return float64(last.UnixMilli()) / 1e3
			}
			return 0
		})
	gauge("lockstep_fleet_controllers",
		"Registered nodes with the role kubernetes_controller whose records are well, as this sidecar observes them.",
		func() float64 { return float64(a.summary().Controllers) })
	gauge("lockstep_fleet_corrupt_records",
		"Node records that cannot be decoded. Each blocks a restriction of the status: /status names them and says what to do.",
		func() float64 { return float64(a.summary().Corrupt) })
	gauge("lockstep_fleet_bundle_mismatches",
		"Releases of which registered nodes have different bundles. Above 0, the objects depend on who leads: /status names the nodes; give all the same bundle.",
		func() float64 { return float64(len(protocol.Mismatched(a.follower.Fleet().Get()))) })
	gauge("lockstep_reconcile_bundle_rejected",
		"1 while the bundle in --bundle is not the one in use: it does not load, or is of another release. /status says why (node.bundleProblem).",
		func() float64 { return boolean[a.bundleProblem.Get() != ""] })
	gauge("lockstep_fleet_upgrade_ready",
		"1 while etcd is connected and the status is DONE at the one release of all controllers: only then start the next upgrade.",
		func() float64 {
			ready := protocol.UpgradeReady(a.store.Observed().Get().View, a.follower.Fleet().Get())
			return boolean[ready && a.etcd.Contact().Get().Connected]
		})
}

func (a *App) summary() protocol.Summary {
	return protocol.Summarize(a.follower.Fleet().Get(), a.local.Get().Version.Release)
}

// boolean is how Prometheus says yes and no.
var boolean = map[bool]float64{true: 1, false: 0}
