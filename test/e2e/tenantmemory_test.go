package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestTenantMemory creates 40 MB of objects of a kind of the set, without the set's label
// and then with it. The leader's resident memory does not follow.
func TestTenantMemory(t *testing.T) {
	const objects, size, allowed, passes = 160, 180_000, 5 << 20, 6 // 240 KB in base64
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	x := newTenant(t, api)
	s := startSidecar(t, c, cluster.SidecarConfig{
		NodeID: "a", Kubeconfig: api.Kubeconfig(), Bundle: tenantBundle(t, "1.0.0"), ResyncInterval: time.Second,
		Env: []string{"GOGC=100"}, // make test sets another value
	})
	statusContains(t, s)("the objects to be watched", `"watching":true`)
	x.learn()
	x.passFence()
	before := residentAfter(t, s, passes)
	fill := func(kind string, create func(name string, data []byte) error, strangers int) {
		for i := range objects {
			data := make([]byte, size)
			_, _ = rand.Read(data) // never fails; compressible data would not be large
			if err := create(fmt.Sprintf("%s-%d", kind, i), data); err != nil {
				t.Fatal(err)
			}
		}
		statusContains(t, s)("the strangers to be counted", fmt.Sprintf(`"totalStrangers":%d,`, strangers))
		after := residentAfter(t, s, passes)
		t.Logf("resident memory: %.1f MB before, %.1f MB beside %s objects", float64(before)/(1<<20), float64(after)/(1<<20), kind)
		if after-before > allowed {
			t.Errorf("%s objects: the leader's memory grew by %d bytes, at most %d are allowed", kind, after-before, allowed)
		}
	}
	fill("plain", func(name string, data []byte) error { return x.CreatePlain(t.Context(), name, data) }, 1)
	fill("labelled", func(name string, data []byte) error { return x.Create(t.Context(), name, "7", data) }, objects+1)
}

// residentAfter returns the highest resident memory of a leader during some passes.
func residentAfter(t *testing.T, s *cluster.Sidecar, passes float64) (highest int64) {
	t.Helper()
	const complete = `lockstep_reconcile_passes_total{result="complete"}`
	first := metric(t, s, complete)
	cluster.Await(t, "passes", func(context.Context) error {
		highest = max(highest, int64(metric(t, s, "process_resident_memory_bytes")))
		if now := metric(t, s, complete); now < first+passes {
			return fmt.Errorf("%g passes", now-first)
		}
		return nil
	})
	return highest
}

func metric(t *testing.T, s *cluster.Sidecar, name string) float64 {
	t.Helper()
	_, text, err := s.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
