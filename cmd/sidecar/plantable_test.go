package main

import (
	"testing"

	"github.com/lockstep-dev/lockstep/reconcile/report"
)

func TestConclusion_heldRemovals(t *testing.T) {
	const brake = "that is more than half of the 14 objects; if it is meant: --allow-mass-prune"
	dropped := func(n int) *objectsReport {
		return &objectsReport{Counts: map[string]int{string(report.ActionHold): n}, PruneHeld: brake}
	}
	for name, tt := range map[string]struct {
		objects *objectsReport
		want    string
	}{
		"objects were not compared": {nil, "Nothing to do: all nodes run this bundle."},
		"none is held":              {&objectsReport{}, "Nothing to do: all nodes run this bundle."},
		"one is held":               {dropped(1), "All nodes run this bundle, but 1 object is not removed: " + brake + "."},
		"many are held":             {dropped(11), "All nodes run this bundle, but 11 objects are not removed: " + brake + "."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := conclusion(planReport{Clean: true, Objects: tt.objects}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
