package alerts

import (
	"fmt"
	"maps"
	"strings"
)

// late is before until 20 minutes before the alerts are asked for, then after.
func late(before, after float64) string {
	return fmt.Sprintf("%v+0x%d %v+0x%d", before, asked-21, after, minutes-asked+20)
}

// lately grows by one a minute from 15 minutes before the alerts are asked for.
func lately() string { return fmt.Sprintf("0+0x%d 0+1x%d", asked-16, minutes-asked+15) }

var situations = []situation{
	{"two healthy control planes", together(), fires{}, true},
	{"nothing is scraped", func(w world) { clear(w) }, fires{"LockstepNotScraped": {{}}}, true},
	{"all sidecars of one control plane are off", gone, fires{"LockstepNotScraped": {ofPlane()}, "LockstepOutOfServiceFast": {ofPlane()}}, true},
	{"a control plane has a new store", renamed, fires{}, true},
	{"a sidecar is off", missing("cp-3"), unplanned(fires{"LockstepNodeNotScraped": {ofPlane()}}), true},
	{"a node loses the role and goes on", together(
		on("lockstep_status_gate_reason", `,reason="NotController"`, always(1), "cp-3"),
		on("lockstep_status_gate_reason", `,reason="Ready"`, always(0), "cp-3"),
		on("lockstep_fleet_controllers", "", always(2)),
	), fires{}, true},
	{"a gate closed six times for a moment", on("lockstep_gate_changes_total", `,reason="Cordoned"`, lately(), "cp-2"),
		fires{"LockstepGateFlaps": {ofNode("cp-2")}}, false},
	{"a kube-apiserver is not ready", on("lockstep_readyz", "", always(0), "cp-2"), unplanned(fires{"LockstepNodeDoesNotServe": {ofNode("cp-2")}}), false},
	{"no node serves", on("lockstep_readyz", "", late(1, 0)), unplanned(fires{
		"LockstepNoNodeServes":     {ofPlane()},
		"LockstepNodeDoesNotServe": {ofNode("cp-1"), ofNode("cp-2"), ofNode("cp-3")},
	}), true},
	{"an override", on("lockstep_status_gate_override_end_timestamp_seconds", "", always(asked*60+600), "cp-2"), fires{"LockstepGateOverridden": {ofNode("cp-2")}}, false},
	{"a status closed a gate", on("lockstep_status_gate_closed_by_status_total", "", late(0, 1), "cp-2"), fires{"LockstepGateClosedByStatus": {ofNode("cp-2")}}, false},
	{"no leader", together(
		on("lockstep_election_state", `,state="leading"`, always(0)),
	), fires{"LockstepNoLeader": {ofPlane()}}, true},
	{"two leaders", on("lockstep_election_state", `,state="leading"`, always(1), "cp-1", "cp-2"), fires{"LockstepTwoLeaders": {ofPlane()}}, true},
	{"withdrawn", on("lockstep_election_withdrawn_timestamp_seconds", "", always(asked*60-600), "cp-2"), fires{"LockstepNodeWithdrawn": {ofNode("cp-2")}}, false},
	{"withdrawn a moment ago", on("lockstep_election_withdrawn_timestamp_seconds", "", always(asked*60-60), "cp-2"), fires{}, false},
	{"the leadership is lost again and again", on("lockstep_election_ended_total", `,reason="Lost"`, lately(), "cp-2"),
		fires{"LockstepLeadersLost": {ofNode("cp-2", "reason", "Lost")}}, false},
	{"an upgrade waits", on("lockstep_election_blockers", "", always(1), "cp-1"), fires{"LockstepUpgradeStuck": {ofNode("cp-1")}}, false},
	{"an upgrade waits for ten minutes", on("lockstep_election_blockers", "", late(0, 1), "cp-1"), fires{}, false},
	{"a rollback ends", on("lockstep_fleet_rollback_end_timestamp_seconds", "", always(asked*60+600)), fires{"LockstepRollbackEnds": {ofPlane()}}, false},
	{"a rollback", on("lockstep_fleet_rollback_end_timestamp_seconds", "", always(asked*60+7200)), fires{}, false},
	{"no etcd", on("lockstep_etcd_connected", "", always(0), "cp-2"), fires{"LockstepEtcdUnreachable": {ofNode("cp-2")}}, false},
	{"a member is off", on("lockstep_cluster_unhealthy_voters", "", always(1)), fires{"LockstepMemberUnhealthy": {ofPlane()}}, false},
	{"a full database", on("lockstep_cluster_database_used_ratio", "", always(0.9)), fires{"LockstepDatabaseNearlyFull": {ofPlane()}}, false},
	{"an old snapshot", on("lockstep_cluster_snapshot_newest_timestamp_seconds", "", always(0), "cp-2"), fires{"LockstepSnapshotOld": {ofNode("cp-2")}}, false},
	{"no snapshot, and none is wanted", together(
		on("lockstep_cluster_snapshot_newest_timestamp_seconds", "", always(0)), on("lockstep_cluster_snapshot_interval_seconds", "", always(0)),
	), fires{}, false},
	{"a slow disk", on("lockstep_cluster_member_fsync_seconds_bucket", `,le="0.1"`, grows(0), "cp-2"), fires{}, false}, // no histogram: its buckets must grow
	{"a slow disk, whole", together(
		on("lockstep_cluster_member_fsync_seconds_bucket", `,le="0.01"`, grows(1), "cp-2"),
		on("lockstep_cluster_member_fsync_seconds_bucket", `,le="0.1"`, grows(2), "cp-2"),
	), fires{"LockstepMemberDiskSlow": {ofNode("cp-2")}}, false},
	{"etcd changes its leader", on("lockstep_cluster_member_leader_changes_total", "", lately(), "cp-2"),
		fires{"LockstepMemberLeaderChanges": {ofNode("cp-2")}}, false},
	{"clocks differ", on("lockstep_fleet_clock_difference_seconds", "", always(9), "cp-2"), fires{"LockstepClocksDiffer": {ofNode("cp-2")}}, false},
	{"no gate", on("lockstep_fleet_controllers_without_gate", "", always(1)), fires{"LockstepNodeWithoutGate": {ofPlane()}}, false},
	{"a sidecar does not write the Service", on("lockstep_fleet_controllers_not_publishing", "", always(1)), fires{"LockstepNotPublishing": {ofPlane()}}, false},
	{"a bundle is rejected", on("lockstep_reconcile_bundle_rejected", "", always(1), "cp-2"), fires{"LockstepBundleRejected": {ofNode("cp-2")}}, false},
	{"bundles differ", on("lockstep_fleet_bundle_mismatches", "", always(1)), fires{"LockstepBundlesDiffer": {ofPlane()}}, false},
	{"kube-apiservers differ", on("lockstep_fleet_apiserver_mismatches", "", always(1)), fires{"LockstepAPIServersDiffer": {ofPlane()}}, false},
	{"services differ", on("lockstep_fleet_services_mismatches", "", always(1)), fires{"LockstepServicesDiffer": {ofPlane()}}, false},
	{"a record is garbage", on("lockstep_fleet_corrupt_records", "", always(1)), fires{"LockstepRecordCorrupt": {ofPlane()}}, false},
	{"a service is not ready", on("lockstep_service_ready", `,service="kube-apiserver"`, always(0), "cp-2"),
		fires{"LockstepServiceNotReady": {ofNode("cp-2", "service", "kube-apiserver")}}, false},
	{"a service ends again and again", on("lockstep_service_restarts_total", `,service="kube-apiserver"`, lately(), "cp-2"),
		fires{"LockstepServiceRestarts": {ofNode("cp-2", "service", "kube-apiserver")}}, false},
	{"services are rejected", on("lockstep_services_rejected", "", always(1), "cp-2"), fires{"LockstepServicesRejected": {ofNode("cp-2")}}, false},
	{"objects fail", on("lockstep_reconcile_objects", `,state="failed"`, always(2), "cp-1"), fires{"LockstepObjectsFail": {ofNode("cp-1", "state", "failed")}}, false},
	{"objects failed while the node led", on("lockstep_reconcile_objects", `,state="failed"`, always(2), "cp-2"), fires{}, false},
	{"another writer", on("lockstep_reconcile_fights", "", always(1), "cp-1"), fires{"LockstepOtherWriter": {ofNode("cp-1")}}, false},
	{"no pass", on("lockstep_reconcile_last_success_timestamp_seconds", "", always(0), "cp-1"), fires{"LockstepNoCompletePass": {ofNode("cp-1")}}, false},
	{"removals are held", on("lockstep_reconcile_objects", `,state="held"`, always(12), "cp-1"), fires{"LockstepRemovalsHeld": {ofNode("cp-1", "state", "held")}}, false},
	{"another client writes the Service", on("lockstep_endpoints_overwritten_total", "", lately(), "cp-2"),
		fires{"LockstepEndpointsOverwritten": {ofNode("cp-2")}}, false},
	{"a certificate expires", on("lockstep_certificate_expiry_timestamp_seconds", `,certificate="serving",file="/etc/tls.crt"`, always(asked*60+86400), "cp-2"),
		fires{"LockstepCertificateExpires": {ofNode("cp-2", "certificate", "serving", "file", "/etc/tls.crt")}}, false},
	{"a worker fails", on("lockstep_app_worker_restarts_total", `,worker="bundle"`, lately(), "cp-2"),
		fires{"LockstepWorkerFails": {ofNode("cp-2", "worker", "bundle")}}, false},
	{"out of service, not planned", unserved("ReleaseTooOld"), unplanned(fires{"LockstepGateClosed": {ofNode("cp-2")}}), true},
	{"out of service, planned", unserved("Cordoned"), fires{"LockstepGateClosed": {ofNode("cp-2")}}, true},
	{"a new control plane that does not serve", together(on("lockstep_readyz", "", late(1, 0)), renamed), fires{
		"LockstepNoNodeServes":     {map[string]string{"store": "cccc"}},
		"LockstepNodeDoesNotServe": {ofNode("cp-1", "store", "cccc"), ofNode("cp-2", "store", "cccc"), ofNode("cp-3", "store", "cccc")},
	}, true},
	{"cordoned, and then off", together(unserved("Cordoned"), ends("cp-2")), fires{"LockstepNodeNotScraped": {ofPlane()}}, true},
	{"two jobs scrape the same sidecars", again, fires{}, true},
	{"two jobs scrape the same sidecars, and one is off", together(unserved("Cordoned"), ends("cp-2"), again), fires{"LockstepNodeNotScraped": {ofPlane()}}, true},
}

// unplanned adds the alerts that fire while a node is out of service without a plan.
func unplanned(more fires) fires {
	more["LockstepOutOfServiceFast"], more["LockstepOutOfServiceSlow"] = []map[string]string{ofPlane()}, []map[string]string{ofPlane()}
	return more
}

// again lets another job scrape each sidecar too, by another address.
func again(w world) {
	for key, values := range maps.Clone(w) { // a new series is not scraped a third time
		w[strings.NewReplacer(`job="lockstep"`, `job="static"`, `instance="`, `instance="static-`).Replace(key)] = values
	}
}

// ends lets every series of a node end 20 minutes before the alerts are asked.
func ends(node string) func(world) {
	return func(w world) {
		for key, values := range w {
			if !strings.Contains(key, `instance="`+node+`-aaaa"`) {
				continue
			}
			first, rest, _ := strings.Cut(values, " ")
			cut := func(part string, length int) string {
				return part[:strings.LastIndex(part, "x")+1] + fmt.Sprint(length)
			}
			if rest == "" {
				w[key] = cut(first, asked-20) + " stale"
				continue
			}
			w[key] = first + " " + cut(rest, 10) + " stale"
		}
	}
}

// unserved closes the gate of cp-2 20 minutes before the alerts are asked for.
func unserved(reason string) func(world) {
	return together(
		on("lockstep_readyz", "", late(1, 0), "cp-2"), on("lockstep_status_gate_ready", "", late(1, 0), "cp-2"),
		on("lockstep_status_gate_reason", label("reason", reason), late(0, 1), "cp-2"),
	)
}
