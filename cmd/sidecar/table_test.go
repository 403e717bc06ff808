package main

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/httpapi"
)

func TestNodeGate(t *testing.T) {
	now := time.Unix(100, 0)
	since, at := now.Add(-26*time.Hour), now.Add(-17*time.Second)
	cordon := &httpapi.CordonReport{}
	down := httpapi.ServesReport{ServesReason: "APIServerNotReady"}
	for want, r := range map[string]httpapi.RecordReport{
		"ready":          {Alive: true, Ready: true, Reason: "Ready"},
		"record corrupt": {Alive: true, Ready: true, Problem: "type this"},
		"Overridden":     {Alive: true, Ready: true, Reason: "Overridden", Cordon: cordon},
		"NotRegistered":  {Alive: true, Reason: "NotRegistered", Cordon: cordon},
		"":               {},
		"Cordoned":       {Cordon: cordon}, // also while the sidecar does not run
	} {
		if got := (table{now: now}).nodeGate(httpapi.FleetNode{RecordReport: r}); got != want {
			t.Errorf("%+v: got %q, want %q", r, got, want)
		}
	}
	typed := &httpapi.CordonReport{Since: &since, By: "root@cp-1"}
	for want, r := range map[string]httpapi.RecordReport{
		"APIServerNotReady for 17s":        {Alive: true, Ready: true, Reason: "Ready", ServesReport: down},
		"ReleaseTooOld for 17s":            {Alive: true, Reason: "ReleaseTooOld"},
		"Cordoned for 26h0m, by root@cp-1": {Alive: true, Reason: "Cordoned", Cordon: typed},
		"ready":                            {Alive: true, Ready: true, Reason: "Ready", ServesReport: httpapi.ServesReport{Serves: true, ServesReason: "Ready"}},
	} {
		if got := (table{now: now}).nodeGate(httpapi.FleetNode{RecordReport: r, ServesSince: &at}); got != want {
			t.Errorf("%+v: got %q, want %q", r, got, want)
		}
	}
	n := httpapi.FleetNode{RecordReport: httpapi.RecordReport{Ephemeral: true}, AliveSince: &at}
	expires := now.Add(38 * time.Second)
	n.ExpiresAt = &expires
	if got := (table{now: now}).alive(n); got != "no, for 17s" {
		t.Errorf("got %q", got)
	}
	if got := (table{now: now}).ephemeral(n); got != "deleted in 38s" {
		t.Errorf("got %q", got)
	}
}

// A gate that is open beside a kube-apiserver that is not ready does not make a node serve.
func TestGateRow(t *testing.T) {
	now := time.Unix(100, 0)
	at, since := now.Add(-17*time.Second), now.Add(-time.Hour)
	r := httpapi.ReadyReport{Ready: true, Reason: "Ready", Message: "it fits", Since: &since, ServesSince: &at}
	if got, want := (table{now: now}).gate(r), "ready for 1h0m: it fits"; got != want {
		t.Errorf("an older sidecar: got %q, want %q", got, want)
	}
	r.ServesReason, r.ServesMessage = "APIServerNotReady", "its kube-apiserver is not ready: [-]etcd failed"
	if got, want := (table{now: now}).gate(r), "NOT IN SERVICE for 17s: its kube-apiserver is not ready: [-]etcd failed; its gate is ready for 1h0m: it fits"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
