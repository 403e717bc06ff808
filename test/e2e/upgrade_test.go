// Package e2e_test tests whole control planes: real kube-apiservers, real sidecars, a
// real etcd and the kubelet's own prober. It needs the binaries that `make test`
// builds, and is skipped without them.
package e2e_test

import (
	"context"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/e2e/upgrade"
)

// TestRollingUpgrade takes the steps of `make demo`: three nodes and two rolling
// upgrades. It checks the claims of each step, and at the end those of all steps.
func TestRollingUpgrade(t *testing.T) {
	c := cluster.NewTracingForTest(t, 0, "kube-apiserver", "sidecar", "kubelet-probe")
	w, err := upgrade.New(upgrade.Config{Cluster: c, Dir: t.TempDir(), OnEvent: func(e upgrade.Event) {
		t.Logf("%6.1fs %-36s %s", e.At.Seconds(), e.Text, e.View)
	}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, w)
	for _, step := range upgrade.Steps() {
		passed := t.Run(step.Name, func(t *testing.T) {
			if err := w.Do(t.Context(), step); err != nil {
				t.Fatal(err)
			}
			wantClaims(t, w.Claims(step))
		})
		if !passed {
			t.FailNow() // the next steps depend on it
		}
	}
	t.Run("during all steps", func(t *testing.T) { wantClaims(t, w.FinalClaims()) })
}

// run observes the walk until the test ends.
func run(t *testing.T, w *upgrade.Walk) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // has room for the only error
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func wantClaims(t *testing.T, claims []upgrade.Claim) {
	t.Helper()
	for i, err := range upgrade.Check(t.Context(), claims) {
		if err != nil {
			t.Errorf("claim %q is false: %v", claims[i].Text, err)
		}
	}
}
