package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// metricsText is what an etcd answers, in part.
const metricsText = `# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 1.5
process_start_time_seconds 1.79e+09
process_resident_memory_bytes 1.048576e+06
etcd_debugging_mvcc_watcher_total 18
etcd_debugging_mvcc_watch_stream_total 3
etcd_server_proposals_applied_total 40
grpc_server_started_total{grpc_method="Txn",grpc_service="etcdserverpb.KV",grpc_type="unary"} 7
grpc_server_started_total{grpc_method="LeaseKeepAlive",grpc_service="etcdserverpb.Lease",grpc_type="bidi_stream"} 11
grpc_server_handled_total{grpc_code="OK",grpc_method="Txn",grpc_service="etcdserverpb.KV",grpc_type="unary"} 6
`

func TestParseEtcd(t *testing.T) {
	began := time.Unix(100, 0)
	before, err := parseEtcd(strings.NewReader(metricsText), began)
	if err != nil {
		t.Fatal(err)
	}
	if before.requests["Txn"] != 7 || before.requests["LeaseKeepAlive"] != 11 || before.watchers != 18 || before.streams != 3 {
		t.Errorf("got %+v", before)
	}
	later := strings.NewReplacer("total 1.5", "total 2.5", "total 40", "total 60", "} 7", "} 27").Replace(metricsText)
	after, err := parseEtcd(strings.NewReader(later), began.Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	got := phaseOf(before, after, 5*time.Second)
	if got.EtcdCPU != 0.1 || got.OwnCPU != 0.5 || got.Entries != 2 || got.all() != 2 || got.Memory != 1<<20 {
		t.Errorf("got %+v", got)
	}
	if _, err := parseEtcd(strings.NewReader(strings.ReplaceAll(metricsText, metricWatchers, "etcd_other")), began); err == nil || !strings.Contains(err.Error(), metricWatchers) {
		t.Errorf("without the watchers: got %v", err)
	}
}

func TestParseOutages(t *testing.T) {
	for list, want := range map[string][]time.Duration{"": nil, "0s,15s": {0, 15 * time.Second}} {
		if got, err := parseOutages(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %s, %v", list, got, err)
		}
	}
	for _, list := range []string{"15", "-1s", "0s;15s"} {
		if got, err := parseOutages(list); err == nil || !strings.Contains(err.Error(), "-outages") {
			t.Errorf("%q: got %s, %v, want an error that names the flag", list, got, err)
		}
	}
}

// What was not measured is not printed as nothing.
func TestPrintMany_notHeld(t *testing.T) {
	var out strings.Builder
	held := carried{Prefixes: 30, Sidecars: 90, Idle: phase{EtcdCPU: 0.02}, Busy: phase{EtcdCPU: 0.05, Requests: map[string]float64{"Txn": 1}}}
	printMany(&out, []carried{held, {Prefixes: 1000, Sidecars: 3000, Idle: phase{EtcdCPU: 0.5}, Problem: "upgrade: x"}})
	for _, want := range []string{"| idle: etcd, CPU ", "| 2 %    | 50 % |", "| one upgrade a second: etcd, CPU ", "| 5 %    | -    |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
}
