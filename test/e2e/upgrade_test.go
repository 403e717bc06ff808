// Package e2e_test tests whole control planes: real kube-apiservers, real sidecars, a
// real etcd and the kubelet's own prober. It needs the binaries that `make test`
// builds, and is skipped without them.
package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/e2e/upgrade"
)

// TestRollingUpgrade takes the steps of `make demo`: three nodes, of which each is one
// command, two rolling upgrades, with the kube-apiservers, and back from the second one. It
// checks the claims of each step, and at the end the claims of all steps. During the rollback,
// the node that leads it is killed: a sidecar, a member of etcd and a kube-apiserver.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	var addresses []net.IP
	cfg := upgrade.Config{Services: "../local/services"}
	for i := range upgrade.NodeCount {
		address := fmt.Sprintf("127.%d.%d.%d", 128+os.Getpid()>>8&0x3f, os.Getpid()&0xff, 2+i)
		addresses, cfg.Addresses = append(addresses, net.ParseIP(address)), append(cfg.Addresses, address)
	}
	cfg.Assets = cluster.Assets(t, append(slices.Collect(maps.Values(upgrade.Programs())), "sidecar", "kubelet-probe")...)
	cfg.Cluster = cluster.NewTracingAtForTest(t, addresses, "kube-apiserver")
	steps := upgrade.Steps()
	for i := range steps {
		steps[i].Kill = steps[i].Rollback
	}
	roll(t, cfg, steps)
}

// TestRollingUpgrade_external takes the steps of `make demo CLUSTER=external`, up to the end
// of the first upgrade: all nodes share an etcd.
func TestRollingUpgrade_external(t *testing.T) {
	t.Parallel()
	c := cluster.NewTracingForTest(t, 0, "kube-apiserver", "sidecar", "kubelet-probe")
	roll(t, upgrade.Config{Cluster: c}, upgrade.Steps()[:1+upgrade.NodeCount])
}

// roll takes steps.
func roll(t *testing.T, cfg upgrade.Config, steps []upgrade.Step) {
	t.Helper()
	cfg.Dir, cfg.OnEvent = t.TempDir(), func(e upgrade.Event) {
		t.Logf("%6.1fs %-36s %s", e.At.Seconds(), e.Text, e.View)
	}
	w, err := upgrade.New(cfg)
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
			claims = slices.DeleteFunc(claims, func(c upgrade.Claim) bool { return c.OfAllSteps })
		}
		wantClaims(t, claims)
	})
}

// run observes the walk until the test ends.
func run(t *testing.T, w *upgrade.Walk) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // room for the only error
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
