package reconcile_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	r := newRig(t)
	registry := prometheus.NewRegistry()
	r.cfg.Registerer = registry
	r.restart()
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
	r.mustComplete()
	r.use("1.0.1", configMap("a", "x: two"), "apiVersion: unknown.test/v1\nkind: Nothing\nmetadata: {name: x}\n")
	if out, err := r.pass(); err != nil || out.Complete {
		t.Fatalf("got %+v, %v, want an incomplete pass", out, err)
	}
	want := `
# HELP lockstep_reconcile_objects Objects in the last pass, by state. failed above 0 needs a person: /status lists them. owed: the bundle dropped them, and they wait until no controller of another release is registered and no required object fails. held: a brake keeps them; see reconcile.pruneHeld in /status.
# TYPE lockstep_reconcile_objects gauge
lockstep_reconcile_objects{state="applied"} 1
lockstep_reconcile_objects{state="desired"} 4
lockstep_reconcile_objects{state="failed"} 1
lockstep_reconcile_objects{state="held"} 0
lockstep_reconcile_objects{state="owed"} 1
lockstep_reconcile_objects{state="pruned"} 0
lockstep_reconcile_objects{state="unchanged"} 2
# HELP lockstep_reconcile_passes_total Passes over the objects. incomplete: some objects failed (see failures in /status); error: the pass could not be made (see lastError in /status).
# TYPE lockstep_reconcile_passes_total counter
lockstep_reconcile_passes_total{result="complete"} 1
lockstep_reconcile_passes_total{result="error"} 0
lockstep_reconcile_passes_total{result="incomplete"} 1
# HELP lockstep_reconcile_writes_total Writes of objects that took effect. If it grows in a quiet cluster, another writer changes the same objects.
# TYPE lockstep_reconcile_writes_total counter
lockstep_reconcile_writes_total{verb="apply"} 1
lockstep_reconcile_writes_total{verb="create"} 4
lockstep_reconcile_writes_total{verb="delete"} 0
lockstep_reconcile_writes_total{verb="recreate"} 0
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"lockstep_reconcile_objects", "lockstep_reconcile_passes_total", "lockstep_reconcile_writes_total")
	if err != nil {
		t.Error(err)
	}
}
