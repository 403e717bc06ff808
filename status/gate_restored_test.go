package status

import (
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Etcd is restored to a status that does not admit this node, and others write until
// its revision is above all that the sidecar knows. The watch goes on and reports
// nothing. A check closes the gate, until the node has registered in this history.
func TestGate_restored(t *testing.T) {
	for _, bump := range []int64{0, 1_000_000} {
		w := newWorld(t)
		etcdutl := etcdtest.Etcdutl(t)
		w.register()
		w.put("0.9.0", "0.9.0") // below M 1.0.0
		w.await(protocol.ReconcilerTooOld)
		snapshot := filepath.Join(t.TempDir(), "snapshot")
		if err := w.server.Save(t.Context(), snapshot); err != nil {
			t.Fatal(err)
		}
		w.put("1.1.0", "1.0.0")
		w.await(protocol.Ready)

		w.proxy.Cut(etcdtest.Reset)
		if err := w.server.Restore(t.Context(), etcdtest.Restoration{Etcdutl: etcdutl, File: snapshot, Bump: bump}); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if _, err := w.raw.Put(t.Context(), "/elsewhere", ""); err != nil {
				t.Fatal(err)
			}
		}
		w.proxy.Restore()
		go func() {
			for t.Context().Err() == nil && w.client.Rewound().Get() == 0 {
				_ = w.client.Check(t.Context())
			}
		}()
		w.await(protocol.NotRegistered)
		w.register()
		w.await(protocol.ReconcilerTooOld)
		if got := countOf(t, w.gate.metrics.closedByStatus); got != 0 {
			t.Errorf("a restore counts as a change of the status that closed the gate: %v times", got)
		}
	}
}

func countOf(t *testing.T, counter prometheus.Counter) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(counter)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}
