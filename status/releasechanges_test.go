package status

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestReleaseChanges(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := newMetrics(registry).releases
	at := time.Unix(1e9, 0)
	observe := func(after time.Duration, state protocol.State, minor int64) {
		at = at.Add(after)
		view := protocol.StatusView{Kind: protocol.StatusPresent}
		view.Status.State, view.Status.Version.Release.Minor = state, minor
		c.observe(at, view)
	}
	// total returns how many changes were measured, and how long they took.
	total := func() (count uint64, seconds float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "lockstep_status_release_change_seconds" {
				h := f.GetMetric()[0].GetHistogram()
				return h.GetSampleCount(), h.GetSampleSum()
			}
		}
		t.Fatal("the metric is missing")
		return 0, 0
	}
	want := func(what string, count uint64, seconds, working float64) {
		t.Helper()
		if n, s := total(); n != count || s != seconds {
			t.Errorf("%s: got %d changes of %v s, want %d of %v s", what, n, s, count, seconds)
		}
		if since := testutil.ToFloat64(c.working); since != working {
			t.Errorf("%s: WORKING since %v, want %v", what, since, working)
		}
	}
	c.observe(at, protocol.StatusView{})
	observe(0, protocol.Working, 1) // its begin is not known
	want("a sidecar that starts in the middle", 0, 0, 1e9)
	observe(time.Second, protocol.Done, 1)
	want("the end of it", 0, 0, 0)
	observe(time.Minute, protocol.Working, 1)
	observe(time.Second, protocol.Done, 1)
	want("the same release again, as after a change of the bundle", 0, 0, 0)
	observe(time.Minute, protocol.Working, 2)
	observe(10*time.Second, protocol.Working, 2) // of another leader
	c.observe(at, protocol.StatusView{Kind: protocol.StatusUndecodable})
	want("an upgrade under way", 0, 0, 1e9+122)
	observe(20*time.Second, protocol.Done, 2)
	want("an upgrade", 1, 30, 0)
	observe(time.Minute, protocol.Done, 1)
	want("a rollback that was too short to be seen", 2, 30, 0)
}
