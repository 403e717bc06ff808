package main

import (
	"testing"

	"github.com/lockstep-dev/lockstep/httpapi"
)

func TestNodeGate(t *testing.T) {
	cordon := &httpapi.CordonReport{}
	for want, r := range map[string]httpapi.RecordReport{
		"ready":          {Alive: true, Ready: true, Reason: "Ready"},
		"record corrupt": {Alive: true, Ready: true, Problem: "type this"},
		"Overridden":     {Alive: true, Ready: true, Reason: "Overridden", Cordon: cordon},
		"NotRegistered":  {Alive: true, Reason: "NotRegistered", Cordon: cordon},
		"":               {},
		"Cordoned":       {Cordon: cordon}, // also while the sidecar does not run
	} {
		if got := nodeGate(httpapi.FleetNode{RecordReport: r}); got != want {
			t.Errorf("%+v: got %q, want %q", r, got, want)
		}
	}
}
