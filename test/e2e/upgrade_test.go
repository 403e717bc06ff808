// Package e2e_test holds the whole to what it promises, with real
// kube-apiservers, real sidecars, a real etcd and the kubelet's own prober. It
// needs the binaries that `make test` builds, and is skipped without them.
package e2e_test

import (
	"context"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/e2e/upgrade"
)

// TestRollingUpgrade takes the walk of `make demo`: three nodes, two rolling
// upgrades, each step held to its claims, and in the end all steps together.
func TestRollingUpgrade(t *testing.T) {
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar", "kubelet-probe")
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
			t.FailNow() // what follows rests on it
		}
	}
	t.Run("in all of this", func(t *testing.T) { wantClaims(t, w.FinalClaims()) })
}

// run watches the walk until the test ends.
func run(t *testing.T, w *upgrade.Walk) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // one error, which waits until it is read
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
			t.Errorf("want that %s: %v", claims[i].Text, err)
		}
	}
}
