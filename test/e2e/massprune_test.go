package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestMassPrune drops more than half of a set of more than ten objects. The leader
// deletes nothing, and /status, its warnings and the metrics show the reason.
func TestMassPrune(t *testing.T) {
	t.Parallel()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	const before, after = 12, 5
	files := map[string]string{"bundle.yaml": bundleHeader}
	for i := range before {
		files[fmt.Sprintf("%02d.yaml", i)] = manifest("ConfigMap", fmt.Sprintf("massprune-%02d", i), "")
	}
	f := bundleDir{t: t, dir: t.TempDir()}
	f.write(files)
	cfg := cluster.SidecarConfig{NodeID: "one", Kubeconfig: api.Kubeconfig(), Bundle: f.dir}
	s := startSidecar(t, c, cfg)
	await := statusContains(t, s)
	await("the objects to be watched", `"watching":true`)

	for i := after; i < before; i++ {
		delete(files, fmt.Sprintf("%02d.yaml", i))
	}
	f.empty()
	f.write(files)
	const why = `thebundledrops7of12objects,morethanhalf;ifthatismeant,startthesidecarswith--allow-mass-prune"`
	await("the reason why nothing is removed", `"owed":7},"pruneHeld":"`+why)
	await("a warning", `"7objectsthatthebundledroppedarenotremoved:`+why)
	if _, metrics, err := s.Get(t.Context(), "/metrics"); err != nil || !strings.Contains(metrics, `lockstep_reconcile_objects{state="held"} 7`) {
		t.Errorf("got %v, want 7 objects held in\n%s", err, metrics)
	}
}
