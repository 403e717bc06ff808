package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestTwoStores runs two stores at one API: a prefix that is wrong on one node, and a
// node at another etcd. The second leader changes nothing, its gate stays closed, and
// it says why. The first one goes on. The second takes over only after `sidecar store
// adopt`, and then without a restart.
func TestTwoStores(t *testing.T) {
	t.Parallel()
	t.Run("another prefix", func(t *testing.T) {
		t.Parallel()
		c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
		twoStores(t, c, cluster.SidecarConfig{EtcdPrefix: "/locksteq/"}, "--etcd-servers="+c.Etcd.Endpoints()[0], "--etcd-prefix=/locksteq/")
	})
	t.Run("another etcd", func(t *testing.T) {
		t.Parallel()
		c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
		other := etcdtest.New(t)
		twoStores(t, c, cluster.SidecarConfig{EtcdServers: other.Endpoints()}, "--etcd-servers="+other.Endpoints()[0])
	})
}

func twoStores(t *testing.T, c *cluster.Cluster, second cluster.SidecarConfig, etcdFlags ...string) {
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	bundle := func(release, color string) string {
		f := bundleDir{t: t, dir: t.TempDir()}
		f.write(map[string]string{
			"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: e2e}\nrelease: " + release + "\n",
			"shared.yaml": manifest("ConfigMap", "shared", "data: {color: "+color+"}"),
		})
		return f.dir
	}
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	awaitColor := func(what, color string) {
		t.Helper()
		cluster.Await(t, what, func(ctx context.Context) error {
			o, err := maps.Get(ctx, "shared", metav1.GetOptions{})
			if err == nil && fmt.Sprint(o.Object["data"]) != "map[color:"+color+"]" {
				err = fmt.Errorf("got %v", o.Object["data"])
			}
			return err
		})
	}

	a := startSidecar(t, c, cluster.SidecarConfig{NodeID: "a", Kubeconfig: api.Kubeconfig(), Bundle: bundle("1.0.0", "red")})
	cluster.Await(t, "a to be ready", a.Readyz)
	awaitColor("the objects of the first store", "red")
	before, err := maps.Get(t.Context(), "shared", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	second.NodeID, second.Kubeconfig, second.Bundle = "b", api.Kubeconfig(), bundle("2.0.0", "blue")
	b := startSidecar(t, c, second)
	awaitB := statusContains(t, b)
	awaitB("b to hold", `"rule":"HoldForStore"`)
	awaitB("the command that helps", "sidecarstoreadopt")
	if err := b.Readyz(t.Context()); err == nil {
		t.Error("the gate of the second store is open")
	}

	// The first store goes on: it repairs drift, and nothing else was written.
	drift := []byte(`{"data":{"color":"green"}}`)
	if _, err := maps.Patch(t.Context(), "shared", types.MergePatchType, drift, metav1.PatchOptions{FieldManager: "someone"}); err != nil {
		t.Fatal(err)
	}
	awaitColor("a to repair drift", "red")
	after, err := maps.Get(t.Context(), "shared", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const epoch = "lockstep.dev/content-epoch"
	if was, now := before.GetAnnotations()[epoch], after.GetAnnotations()[epoch]; was != now {
		t.Errorf("the content epoch moved from %s to %s", was, now)
	}
	if err := a.Readyz(t.Context()); err != nil {
		t.Errorf("the gate of the first store: %v", err)
	}
	if err := b.Readyz(t.Context()); err == nil {
		t.Error("the gate of the second store opened")
	}

	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"store", "adopt", "--kubeconfig", api.Kubeconfig()}, etcdFlags...)
	out, err := exec.CommandContext(t.Context(), filepath.Join(cluster.Assets(t, "sidecar"), "sidecar"), args...).CombinedOutput()
	if err != nil || !regexp.MustCompile(`has adopted the ID [0-9a-f]{32}\n$`).Match(out) {
		t.Fatalf("%v: %s", err, out)
	}
	cluster.Await(t, "b to be ready", b.Readyz)
	awaitColor("the objects of the second store", "blue")
}
