package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestDrift deletes and edits an object of the built-in bundle again and again, until
// /status reports a fight and names the other writer.
func TestDrift(t *testing.T) {
	t.Parallel()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	s := startSidecar(t, c, cluster.SidecarConfig{NodeID: "one", Kubeconfig: api.Kubeconfig()})
	await := statusContains(t, s)
	await("the objects to be watched", `"watching":true`)
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	classes := client.Resource(schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"})
	list, err := classes.List(t.Context(), metav1.ListOptions{LabelSelector: "applyset.kubernetes.io/part-of"})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("got %v, %v, want the bundle's priority classes", list, err)
	}
	name := list.Items[0].GetName()
	if err := classes.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await("the deleted object to be restored", `"repairs":1,`)
	for i := 2; i <= 5; i++ {
		patch := fmt.Appendf(nil, `{"description":"theirs %d"}`, i)
		if _, err := classes.Patch(t.Context(), name, "application/merge-patch+json", patch, metav1.PatchOptions{FieldManager: "other-operator"}); err != nil {
			t.Fatal(err)
		}
		await("the object to be repaired", fmt.Sprintf(`"repairs":%d,`, i))
	}
	await("the fight", `"fieldManager":"other-operator","fields":[".description"]`)
	got, err := classes.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Object["description"]; text != list.Items[0].Object["description"] {
		t.Errorf("got description %q, want that of the bundle", text)
	}
	_, metrics, err := s.Get(t.Context(), "/metrics")
	if err != nil || !strings.Contains(metrics, "lockstep_reconcile_fights 1\n") {
		t.Errorf("got no fight in the metrics (%v)", err)
	}
}
