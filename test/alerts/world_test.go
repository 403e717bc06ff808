package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// world has the series that Prometheus scraped: for each its name with all labels, and its values in
// promtool's notation, one a minute.
type world map[string]string

// Nodes of a control plane, and control planes. Each node is one target.
var (
	nodes  = []string{"cp-1", "cp-2", "cp-3"}
	stores = []string{"aaaa", "bbbb"}
)

// series names a series of one target. labels is empty, or begins with a comma.
func series(store, node, name, labels string) string {
	return fmt.Sprintf(`%s{job="lockstep",instance="%s-%s"%s}`, name, node, store, labels)
}

// healthy returns two control planes of three nodes each, which have run for seven hours. Their values are
// those that a sidecar shows, for every metric that an alert reads.
func healthy() world {
	w := world{}
	for _, store := range stores {
		for i, node := range nodes {
			w.addNode(store, node, i == 0)
		}
	}
	return w
}

func (w world) addNode(store, node string, leads bool) {
	set := func(name, labels, value string) { w[series(store, node, name, labels)] = value }
	info := fmt.Sprintf(`,node="%s",store="%s",release="1.0.0",version="1.0.0"`, node, store)
	set("lockstep_node_info", info, always(1))
	set("lockstep_readyz", "", always(1))
	set("lockstep_status_gate_ready", "", always(1))
	set("lockstep_fleet_controllers", "", always(3))
	set("lockstep_etcd_connected", "", always(1))
	for _, reason := range []string{"Ready", "NotController", "Cordoned", "ReleaseTooOld"} {
		set("lockstep_status_gate_reason", label("reason", reason), always(one(reason == "Ready")))
		set("lockstep_gate_changes_total", label("reason", reason), always(one(reason == "Ready")))
		set("lockstep_gate_seconds_total", label("reason", reason), grows(60*one(reason == "Ready")))
	}
	for _, state := range []string{"leading", "campaigning", "withdrawn"} {
		here := state == "leading" && leads || state == "campaigning" && !leads
		set("lockstep_election_state", label("state", state), always(one(here)))
	}
	for _, name := range zero {
		set(name, "", always(0))
	}
	set("lockstep_reconcile_last_success_timestamp_seconds", "", grows(60)) // the clock of promtool begins at 0
	set("lockstep_cluster_snapshot_newest_timestamp_seconds", "", grows(60))
	set("lockstep_cluster_snapshot_interval_seconds", "", always(3600))
	set("lockstep_certificate_expiry_timestamp_seconds", `,certificate="serving",file="/etc/tls.crt"`, always(3e7))
	set("lockstep_certificate_expiry_timestamp_seconds", `,certificate="client-ca",file=""`, always(0))
	set("lockstep_reconcile_objects", `,state="failed"`, always(0))
	set("lockstep_reconcile_objects", `,state="held"`, always(0))
	set("lockstep_election_ended_total", `,reason="Lost"`, always(1))
	set("lockstep_app_worker_restarts_total", `,worker="bundle"`, always(1))
	set("lockstep_service_ready", `,service="kube-apiserver"`, always(1))
	set("lockstep_service_restarts_total", `,service="kube-apiserver"`, always(1))
	for _, bucket := range []string{"0.01", "0.1", "1", "+Inf"} {
		set("lockstep_cluster_member_fsync_seconds_bucket", label("le", bucket), grows(600))
	}
}

// zero are metrics that are 0 while nothing is wrong.
var zero = []string{
	"lockstep_cluster_database_used_ratio", "lockstep_cluster_member_leader_changes_total",
	"lockstep_cluster_unhealthy_voters", "lockstep_election_blockers", "lockstep_election_withdrawn_timestamp_seconds",
	"lockstep_endpoints_overwritten_total", "lockstep_fleet_apiserver_mismatches", "lockstep_fleet_bundle_mismatches",
	"lockstep_fleet_clock_difference_seconds", "lockstep_fleet_controllers_cordoned_off", "lockstep_fleet_controllers_not_publishing", "lockstep_fleet_controllers_without_gate", "lockstep_fleet_corrupt_records",
	"lockstep_fleet_rollback_end_timestamp_seconds", "lockstep_fleet_services_mismatches", "lockstep_reconcile_bundle_rejected", "lockstep_reconcile_fights",
	"lockstep_services_rejected", "lockstep_status_gate_closed_by_status_total", "lockstep_status_gate_override_end_timestamp_seconds",
}

// minutes is how long the series are. The alerts are asked for after the first 420 of them.
const (
	minutes = 440
	asked   = 420
)

func always(v float64) string { return fmt.Sprintf("%v+0x%d", v, minutes) }

// grows begins at 0 and grows by v a minute.
func grows(v float64) string { return fmt.Sprintf("0+%vx%d", v, minutes) }

func label(name, value string) string { return fmt.Sprintf(`,%s="%s"`, name, value) }

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// yaml is the part input_series of a test of promtool.
func (w world) yaml() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w)) {
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", name, w[name])
	}
	return b.String()
}
