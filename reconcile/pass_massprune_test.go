package reconcile_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestMassPrune(t *testing.T) {
	r := newRig(t)
	var many []string
	for i := range 12 {
		many = append(many, configMap(fmt.Sprintf("m-%d", i), "x: one"))
	}
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	r.cfg.Log, r.cfg.Registerer = slog.New(slog.NewTextHandler(&log, nil)), registry
	r.restart()
	r.use("1.0.0", many...)
	r.mustComplete()

	t.Run("is held back, and a bundle that prunes at once is not done", func(t *testing.T) {
		r.useHeader("release: 1.0.1\nprunePolicy: Immediately", many[:5]...)
		out, err := r.pass()
		if err != nil || out.Complete || out.Owed != 0 || !strings.Contains(r.report().PruneHeld, "--allow-mass-prune") {
			t.Errorf("got %+v, %v, %+v", out, err, r.report())
		}
		r.get(configMaps, r.ns, "m-11")
	})
	t.Run("the brake is logged once, and counted", func(t *testing.T) {
		if _, err := r.pass(); err != nil {
			t.Fatal(err)
		}
		const line = `msg="removals held" worker=reconcile owed=7 reason="the bundle drops 7 of 12 objects, more than half`
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("got %d times %s in\n%s", n, line, log.String())
		}
		if got := r.objectsInState(registry, "held"); got != 7 {
			t.Errorf("got %v held objects, want 7", got)
		}
	})
	t.Run("does not hold back DONE otherwise", func(t *testing.T) {
		r.use("1.0.2", many[:5]...)
		if out := r.mustComplete(); out.Owed != 0 {
			t.Errorf("got %+v: what is held back is not owed, or the leader would ask again at once", out)
		}
		r.get(configMaps, r.ns, "m-11")
	})
	t.Run("goes ahead where it is allowed", func(t *testing.T) {
		r.cfg.AllowMassPrune, r.cfg.Registerer = true, nil
		r.restart()
		r.mustComplete()
		r.wantGone(configMaps, r.ns, "m-11")
		if held := r.report().PruneHeld; held != "" {
			t.Errorf("got held %q after the removals", held)
		}
	})
}

// objectsInState reads lockstep_reconcile_objects.
func (r *rig) objectsInState(registry *prometheus.Registry, state string) float64 {
	r.t.Helper()
	families, err := registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "lockstep_reconcile_objects" && m.GetLabel()[0].GetValue() == state {
				return m.GetGauge().GetValue()
			}
		}
	}
	r.t.Fatalf("there is no state %q", state)
	return 0
}
