package table

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/report"
)

// A warning of three nodes in the same words is one row, and NODE is the node with the problem.
func TestWarnings(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(seconds int) report.Timestamp { return report.At(now.Add(-time.Duration(seconds) * time.Second)) }
	writes := "Service kubernetes: a kube-apiserver writes the Service itself"
	r := report.Status{Node: report.Node{ID: "a"}, Warnings: []report.Warning{
		{Reason: "MemberDown", Subject: "b", Message: "its sidecar runs, its etcd member does not serve: no space left on device", Since: ago(33)},
		{Reason: "ReconcilerRuns", Message: writes, Since: ago(5)},
		{Reason: "APIServerNotReady", Subject: "c", Message: "its kube-apiserver answers 401, so it does not serve", Since: ago(9)},
		{Reason: "NoLeader", Message: "no node leads", Since: ago(3)},
	}}
	r.Etcd.Warnings = []string{"etcd 3.5.1 has known faults"}
	r.Fleet.Nodes = []report.FleetNode{
		{Record: report.Record{ID: "a"}, Warnings: []report.Warning{{Message: "shown above"}}},
		{Record: report.Record{ID: "b"}, Warnings: []report.Warning{
			{Reason: "MemberDown", Message: "its etcd member cannot be used: no space left on device", Since: ago(34)},
			{Reason: "ReconcilerRuns", Message: writes, Since: ago(7)},
			{Reason: "ServiceFailing", Message: "one", Since: ago(1)}, {Reason: "ServiceFailing", Message: "two", Since: ago(2)},
		}},
		{Record: report.Record{ID: "c"}, Warnings: []report.Warning{
			{Reason: "ReconcilerRuns", Message: writes},
			{Reason: "NoLeader", Message: "no node leads", Since: ago(2)},
			{Reason: "EtcdLeaderChanges", Message: "etcd's leader changed 4 times", Since: ago(6)},
			{Reason: "APIRefused", Message: "its kube-apiserver answers 401"},
			{Reason: "MemberDown", Subject: "b", Message: "c says so in other words"},
			{Reason: "ObjectFailed", Subject: `ConfigMap "x"`, Message: "refused", Since: ago(4)},
		}},
	}
	want := [][]string{
		{"NODE", "FOR", "WHAT TO DO"},
		{"b", "33s", "its sidecar runs, its etcd member does not serve: no space left on device"},
		{"a, b, c", "7s", writes},
		{"c", "9s", "its kube-apiserver answers 401, so it does not serve"},
		{"b", "1s", "one"},
		{"b", "2s", "two"},
		{"c", "4s", `ConfigMap "x": refused`},
		{"-", "3s", "no node leads"},
		{"-", "6s", "etcd's leader changed 4 times"},
		{"a", "-", "etcd 3.5.1 has known faults"},
	}
	if diff := cmp.Diff(want, Status{Now: now}.warnings(r)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What is down now is the first row, with the rows that say more.
func TestProblems(t *testing.T) {
	serves := report.Ready{Ready: true}
	down := func(reason, subject string) report.Warning {
		return report.Warning{Reason: reason, Subject: subject, Message: reason + " of " + subject}
	}
	away := report.Etcd{LastContact: report.At(time.Unix(1, 0))}
	for name, tt := range map[string]struct {
		r    report.Status
		want string
	}{
		"nothing":       {report.Status{Ready: serves, Etcd: report.Etcd{Connected: true}, Warnings: []report.Warning{down("ClocksDiffer", "b"), down("BundlesDiffer", "")}}, ""},
		"one node":      {report.Status{Ready: serves, Etcd: report.Etcd{Connected: true}, Warnings: []report.Warning{down("NodeDead", "b")}}, "b: not alive (see WARNINGS)"},
		"one of two":    {report.Status{Ready: serves, Etcd: report.Etcd{Connected: true}, Warnings: []report.Warning{down("NodeDead", "b"), down("Outage", "a")}}, "b: not alive (see WARNINGS)"},
		"a consequence": {report.Status{Ready: serves, Etcd: report.Etcd{Connected: true}, Warnings: []report.Warning{down("NoLeader", ""), down("NodeDead", "b"), down("NodeDead", "c")}}, "b, c: not alive; no node leads (see WARNINGS)"},
		"this node":     {report.Status{Ready: report.Ready{Reason: "Cordoned"}, Etcd: away}, "etcd does not answer (see ETCD); this node does not serve (see GATE)"},
		"no role":       {report.Status{Ready: report.Ready{Reason: "NotController"}, Etcd: report.Etcd{Connected: true}}, ""},
		"it withdrew":   {report.Status{Ready: serves, Etcd: report.Etcd{Connected: true}, Election: report.Election{State: "withdrawn"}}, "this node has withdrawn from the election (see LEADER)"},
		"many": {report.Status{Ready: serves, Etcd: report.Etcd{Connected: true}, Warnings: []report.Warning{down("NodeDead", "b"), down("MemberDown", "c"), down("NoGate", "d"), down("GateClosed", "e"),
			down("Cordoned", "f"), down("DuplicateNodeID", ""), down("StatusCorrupt", ""), down("NoLeader", "")}},
			"b: not alive; c: etcd member does not serve; d: reports no gate; e: gate is closed; f: cordoned; a: two sidecars have this node ID (see WARNINGS); and 2 more"},
		"another bundle, too": {report.Status{Ready: serves, Etcd: report.Etcd{Connected: true}, Warnings: []report.Warning{down("OtherBundle", ""), down("NodeDead", "b")}}, "OTHER BUNDLE: OtherBundle of |b: not alive (see WARNINGS)"},
	} {
		tt.r.Node.ID = "a"
		var got []string
		for _, row := range (Status{}).problems(tt.r) {
			got = append(got, row[1])
		}
		if text := strings.Join(got, "|"); text != tt.want {
			t.Errorf("%s: got %q, want %q", name, text, tt.want)
		}
	}
}

func TestClusterRow(t *testing.T) {
	now := time.Unix(1000, 0)
	since, down := report.At(now.Add(-time.Hour)), report.At(now.Add(-20*time.Second))
	c := report.Cluster{State: "Running", Since: since, Members: []report.Member{
		{Node: "a", Address: "10.0.0.1", Healthy: true, Leader: true}, {Node: "b", Address: "10.0.0.2", Problem: "it does not answer", Since: down}, {Node: "c", Address: "10.0.0.3"},
	}}
	c.Members[0].DBSize, c.Members[0].Quota = 429496725, 8<<30 // five hundredths, rounded down
	c.Members[1].Quota = 16 << 20
	want := "Running for 1h0m\na 10.0.0.1 (leads etcd), database 5 % of 8.0 GiB\nb 10.0.0.2 (not healthy for 20s: it does not answer), database below 1 % of 16.0 MiB\nc 10.0.0.3 (not healthy)"
	if got := strings.Join((Status{Now: now}).cluster(c), "\n"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A node that does not follow the election any more shows the last state that it knew.
func TestLeaderRow(t *testing.T) {
	r := report.Status{Etcd: report.Etcd{Connected: true}, Election: report.Election{State: "ineligible"}}
	if got, want := (Status{}).leader(r), "none known to this node; this node: ineligible"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.Fleet.Nodes = []report.FleetNode{{Record: report.Record{ID: "a"}}, {Record: report.Record{ID: "b", Election: "leading"}}}
	if got, want := (Status{}).leader(r), "b, as it last reported; this node: ineligible"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
