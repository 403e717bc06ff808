// Package e2e_test tests whole control planes: real kube-apiservers, real sidecars, a
// real etcd and the kubelet's own prober. It needs the binaries that `make test`
// builds, and is skipped without them.
package e2e_test

import (
	"context"
	"flag"
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
	steps := upgrade.Steps()
	begun := slices.IndexFunc(steps, func(s upgrade.Step) bool { return s.Rollback })
	steps[begun+1].Kill = true
	roll(t, byCommand(t, 0), steps)
}

// byCommand configures a walk whose nodes are one command each. Two of them at the same time have other numbers.
func byCommand(t *testing.T, number int) upgrade.Config {
	t.Helper()
	var addresses []net.IP
	cfg := upgrade.Config{Services: "../local/services"}
	for i := range upgrade.NodeCount {
		address := fmt.Sprintf("127.%d.%d.%d", 128+os.Getpid()>>8&0x3f, os.Getpid()&0xff, 2+i+upgrade.NodeCount*number)
		addresses, cfg.Addresses = append(addresses, net.ParseIP(address)), append(cfg.Addresses, address)
	}
	cfg.Assets = cluster.Assets(t, append(slices.Collect(maps.Values(upgrade.Programs())), "sidecar", "kubelet-probe")...)
	cfg.Cluster = cluster.NewTracingAtForTest(t, addresses, "kube-apiserver")
	return cfg
}

var flagsEverywhere = flag.Bool("flags", false, "run TestFlagsEverywhere, as `make soak` does")

// TestFlagsEverywhere changes the file of kube-apiserver on three nodes at one moment, as a script on each would do, with
// clients all the time: each restarts its own in its turn, and no request fails.
func TestFlagsEverywhere(t *testing.T) {
	if !*flagsEverywhere {
		t.Skip("SKIPPED, NOT TESTED: make soak runs it; or -flags")
	}
	w := newWalk(t, byCommand(t, 1))
	run(t, w)
	first := upgrade.Steps()[0]
	if err := w.Do(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	wantClaims(t, w.Claims(first))
	for _, arg := range []string{"--event-ttl=2h", "--max-requests-inflight=401"} {
		claim, err := w.ChangeFlag(first.Release, arg)
		if err != nil {
			t.Fatal(err)
		}
		wantClaims(t, append(w.Claims(first), claim, w.ClientsClaim()))
	}
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
	w := newWalk(t, cfg)
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

func newWalk(t *testing.T, cfg upgrade.Config) *upgrade.Walk {
	t.Helper()
	cfg.Dir, cfg.OnEvent = t.TempDir(), func(e upgrade.Event) {
		t.Logf("%6.1fs %-36s %s", e.At.Seconds(), e.Text, e.View)
	}
	w, err := upgrade.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
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
