// Package e2e_test tests whole control planes: real kube-apiservers, real sidecars, a
// real etcd and the kubelet's own prober. It needs the binaries that `make test`
// builds, and is skipped without them.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/e2e/upgrade"
)

// TestRollingUpgrade takes the steps of `make demo`: three nodes and two rolling
// upgrades. It checks the claims of each step, and at the end those of all steps.
func TestRollingUpgrade(t *testing.T) {
	roll(t, upgrade.Steps())
}

// TestRollingUpgrade_embedded takes those of `make demo CLUSTER=embedded`, up to the end
// of the first upgrade: the sidecars run etcd themselves, and each step restarts one of
// its members.
func TestRollingUpgrade_embedded(t *testing.T) {
	var addresses []string
	for i := range upgrade.NodeCount {
		addresses = append(addresses, fmt.Sprintf("127.%d.%d.%d", 128+os.Getpid()>>8&0x3f, os.Getpid()&0xff, 2+i))
	}
	roll(t, upgrade.Steps()[:1+upgrade.NodeCount], addresses...)
}

// roll takes steps. addresses are those of the etcd members; none: etcd runs elsewhere.
func roll(t *testing.T, steps []upgrade.Step, addresses ...string) {
	t.Helper()
	c := cluster.NewTracingForTest(t, 0, "kube-apiserver", "sidecar", "kubelet-probe")
	w, err := upgrade.New(upgrade.Config{Cluster: c, Dir: t.TempDir(), Addresses: addresses, OnEvent: func(e upgrade.Event) {
		t.Logf("%6.1fs %-36s %s", e.At.Seconds(), e.Text, e.View)
	}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, w)
	for _, step := range steps {
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
	t.Run("during all steps", func(t *testing.T) {
		claims := w.FinalClaims()
		if len(steps) < len(upgrade.Steps()) {
			claims = claims[2:] // the others are about all steps
		}
		wantClaims(t, claims)
	})
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
