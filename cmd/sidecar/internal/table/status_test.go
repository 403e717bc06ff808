package table

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/report"
)

func TestNodeGate(t *testing.T) {
	now := time.Unix(100, 0)
	since, at := report.At(now.Add(-26*time.Hour)), report.At(now.Add(-17*time.Second))
	cordon := &report.Cordon{}
	down := report.Standing{ServesReason: "APIServerNotReady"}
	for want, r := range map[string]report.Record{
		"ready":          {Alive: true, Ready: true, Reason: "Ready"},
		"record corrupt": {Alive: true, Ready: true, Problem: "type this"},
		"Overridden":     {Alive: true, Ready: true, Reason: "Overridden", Cordon: cordon},
		"NotRegistered":  {Alive: true, Reason: "NotRegistered", Cordon: cordon},
		"":               {},
		"Cordoned":       {Cordon: cordon}, // also while the sidecar does not run
	} {
		if got := (Status{Now: now}).nodeGate(report.FleetNode{Record: r}); got != want {
			t.Errorf("%+v: got %q, want %q", r, got, want)
		}
	}
	typed := &report.Cordon{Since: since, By: "root@cp-1"}
	for want, r := range map[string]report.Record{
		"APIServerNotReady for 17s":        {Alive: true, Ready: true, Reason: "Ready", Standing: down},
		"ReleaseTooOld for 17s":            {Alive: true, Reason: "ReleaseTooOld"},
		"Cordoned for 26h0m, by root@cp-1": {Alive: true, Reason: "Cordoned", Cordon: typed},
		"ready":                            {Alive: true, Ready: true, Reason: "Ready", Standing: report.Standing{Serves: true, ServesReason: "Ready"}},
	} {
		if got := (Status{Now: now}).nodeGate(report.FleetNode{Record: r, ServesSince: at}); got != want {
			t.Errorf("%+v: got %q, want %q", r, got, want)
		}
	}
	n := report.FleetNode{Record: report.Record{Ephemeral: true}, AliveSince: at}
	expires := now.Add(38 * time.Second)
	n.ExpiresAt = report.At(expires)
	if got := (Status{Now: now}).alive(n); got != "no, for 17s" {
		t.Errorf("got %q", got)
	}
	if got := (Status{Now: now}).ephemeral(n); got != "deleted in 38s" {
		t.Errorf("got %q", got)
	}
}

// A gate that is open beside a kube-apiserver that is not ready does not make a node serve.
func TestGateRow(t *testing.T) {
	now := time.Unix(100, 0)
	at, since := report.At(now.Add(-17*time.Second)), report.At(now.Add(-time.Hour))
	r := report.Ready{Ready: true, Reason: "Ready", Message: "it fits", Since: since, ServesSince: at}
	if got, want := (Status{Now: now}).gate(r), "ready for 1h0m: it fits"; got != want {
		t.Errorf("an older sidecar: got %q, want %q", got, want)
	}
	r.ServesReason, r.ServesMessage = "APIServerNotReady", "its kube-apiserver is not ready: [-]etcd failed"
	if got, want := (Status{Now: now}).gate(r), "NOT IN SERVICE for 17s: its kube-apiserver is not ready: [-]etcd failed; its gate is ready for 1h0m: it fits"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The counts of a leader that holds are of an earlier leadership.
func TestObjectsRow(t *testing.T) {
	elected := time.Unix(1000, 0)
	for _, tc := range []struct{ state, passed, failed, want string }{
		{"leading", "5s", "", "3 desired: "},
		{"leading", "-5s", "", "when this node led before: 3 desired: "},
		{"leading", "-5s", "1 object failed", "3 desired: "},
		{"campaigning", "-5s", "", "when this node last led: 3 desired: "},
	} {
		after, err := time.ParseDuration(tc.passed)
		if err != nil {
			t.Fatal(err)
		}
		r := report.Status{Election: report.Election{State: tc.state, Since: report.At(elected)}}
		r.Reconcile = report.Reconcile{LastSuccess: report.At(elected.Add(after)), LastError: tc.failed, Objects: report.Objects{Desired: 3}}
		if got := (Status{Now: elected.Add(time.Minute)}).objects(r); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%+v: got %s", tc, got)
		}
	}
}

// A long error of a pass that GATE contains is not repeated.
func TestLastError(t *testing.T) {
	long := "survey: read the mark: " + strings.Repeat("x", longSentence)
	for _, tc := range [][3]string{{long, "this node leads: " + long, "last error: see GATE"}, {long, "ready", "last error: " + long}, {"short", "short", "last error: short"}} {
		r := report.Status{Reconcile: report.Reconcile{LastError: tc[0]}, Ready: report.Ready{Message: tc[1]}}
		if rows := (Status{}).summary(r); !slices.ContainsFunc(rows, func(row []string) bool { return row[1] == tc[2] }) {
			t.Errorf("%q: got %v", tc, rows)
		}
	}
}

// A new leader counts from its election. Beside it, FLEET knows the node to be missing for longer.
func TestUnreachable(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(seconds int) report.Timestamp { return report.At(now.Add(-time.Duration(seconds) * time.Second)) }
	gone := func(since report.Timestamp) []report.FleetNode {
		return []report.FleetNode{{Record: report.Record{ID: "a", Alive: true}, AliveSince: ago(900)}, {Record: report.Record{ID: "b"}, AliveSince: since}}
	}
	b := report.Blocker{ID: "b", Absence: report.Absence{GoneSince: ago(5)}}
	for want, nodes := range map[string][]report.FleetNode{
		"no, for at least 6m": gone(ago(360)), "no, for at least 5s": gone(ago(2)), "no, for at least 5s ": gone(report.Timestamp{}), "no, for at least 5s  ": nil,
	} {
		if got := (Status{Now: now}).unreachable(b, nodes); got != strings.TrimSpace(want) {
			t.Errorf("%+v: got %q, want %q", nodes, got, want)
		}
	}
	if got := (Status{Now: now}).unreachable(report.Blocker{ID: "b"}, gone(ago(360))); got != "yes" {
		t.Errorf("the leader sees it: got %q", got)
	}
}

// A row refers to WARNINGS only if that has it: a warning may come later than its obstacle.
func TestObstacleText(t *testing.T) {
	o := report.Obstacle{Reason: "NodeDead", Node: "b", Message: "it is not alive; start it again"}
	for want, warnings := range map[string][]report.Warning{
		"it is not alive (see WARNINGS)":  {{Reason: "NoLeader"}, {Reason: "NodeDead", Subject: "b"}},
		"it is not alive; start it again": {{Reason: "NodeDead", Subject: "c"}, {Reason: "Cordoned", Subject: "b"}},
	} {
		if got := obstacleText(o, warnings); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// LEADER and FLEET say the same of this node.
func TestElectionShown(t *testing.T) {
	for want, r := range map[string]report.Status{
		"withdrawn":  {Election: report.Election{State: "ineligible"}},
		"leading":    {Election: report.Election{State: "leading"}},
		"ineligible": {Election: report.Election{State: "ineligible"}, Node: report.Node{ID: "other"}},
	} {
		r.Fleet.Nodes = []report.FleetNode{{Record: report.Record{Alive: true, Election: "withdrawn"}}}
		if got := electionShown(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A service that its role stopped is not ready, and has no problem: its file alone explains nothing.
func TestNotReady(t *testing.T) {
	for want, s := range map[int]report.Service{
		0: {Name: "a", Phase: "Stopped", File: "/a.yaml"}, 1: {Name: "a", Phase: "Starting", Problem: "no answer"}, 2: {Name: "a", Phase: "BackOff", LastExit: "exit status 1", File: "/a.yaml"},
	} {
		if got := (Status{}).notReady(report.Status{Services: []report.Service{s}}); len(got) != want {
			t.Errorf("%+v: got %q", s, got)
		}
	}
}
