//go:build !race

package reconcile_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// 40 MB of objects of others with the set's label: a pass allocates little more
// than without them, so that it can keep no more either.
func TestMemoryOfStrangers(t *testing.T) {
	const objects, size, allowed = 160, 180_000, 5 << 20 // 240 KB in base64
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	r.mustComplete()
	pass := func() uint64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r.mustComplete()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	r.mustComplete()
	plain := pass()
	set := r.get(configMaps, r.ns, "set").GetLabels()["applyset.kubernetes.io/id"]
	for i := range objects {
		data := make([]byte, size)
		_, _ = rand.Read(data) // never fails; what can be compressed would not be large
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		obj.SetName(fmt.Sprintf("large-%d", i))
		obj.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": set})
		obj.SetAnnotations(map[string]string{"theirs": base64.StdEncoding.EncodeToString(data)})
		if _, err := r.api.Resource(configMaps).Namespace(r.ns).Create(t.Context(), obj, metav1.CreateOptions{FieldManager: "tenant"}); err != nil {
			t.Fatal(err)
		}
	}
	r.mustComplete()
	with := pass()
	t.Logf("a pass allocates %d bytes, without strangers %d", with, plain)
	if r.report().TotalStrangers != objects {
		t.Errorf("got %d strangers", r.report().TotalStrangers)
	}
	if with > plain+allowed {
		t.Errorf("a pass allocates %d bytes, without strangers %d: the growth is above %d", with, plain, allowed)
	}
}
