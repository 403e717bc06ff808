package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestOtherBundle restarts three nodes with the bundle of another platform. No object is
// touched, and each node first names the problem and the command to type. The bundle takes
// over once `sidecar bundle replace` was typed, and not a second time.
func TestOtherBundle(t *testing.T) {
	t.Parallel()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	version := func(name string) (string, error) {
		o, err := maps.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return o.GetResourceVersion(), nil
	}
	dirOf := func(name, release string) string {
		f := bundleDir{t: t, dir: t.TempDir()}
		f.write(map[string]string{
			"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: " + name + "}\nrelease: " + release + "\nprunePolicy: Immediately\n",
			"own.yaml":    manifest("ConfigMap", name, "data: {of: "+name+"}"),
		})
		return f.dir
	}
	acme, base := dirOf("acme", "1.0.0"), dirOf("base", "0.1.0")
	start := func(id, dir string) *cluster.Sidecar {
		return startSidecar(t, c, cluster.SidecarConfig{NodeID: id, Kubeconfig: api.Kubeconfig(), Bundle: dir})
	}
	ids := []string{"a", "b", "c"}
	nodes := map[string]*cluster.Sidecar{}
	for _, id := range ids {
		nodes[id] = start(id, acme)
	}
	for _, id := range ids {
		cluster.Await(t, id+" to be ready", nodes[id].Readyz)
	}
	before, err := version("acme")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if err := nodes[id].Stop(); err != nil {
			t.Fatal(err)
		}
		nodes[id] = start(id, base)
		statusContains(t, nodes[id])("another bundle on "+id, `"reason":"OtherBundle"`)
	}
	cluster.Await(t, "the leader to hold", func(ctx context.Context) error {
		for _, id := range ids {
			if _, text, err := nodes[id].Get(ctx, "/status"); err == nil && strings.Contains(strings.Join(strings.Fields(text), ""), `"rule":"HoldForBundle"`) {
				return nil
			}
		}
		return errors.New("no node holds")
	})
	if now, err := version("acme"); err != nil || now != before {
		t.Errorf("the object was touched: %v, version %s, and before %s", err, now, before)
	}
	if _, err := version("base"); err == nil {
		t.Error("an object of the other bundle is there")
	}
	replace := func(from, to string) (string, error) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(cluster.Assets(t, "sidecar"), "sidecar"),
			"bundle", "replace", "--from="+from, "--to="+to, "--etcd-servers="+c.Etcd.Endpoints()[0]).CombinedOutput()
		return string(out), err
	}
	if out, err := replace("acme", "base"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cluster.Await(t, "the other bundle to take over", func(context.Context) error {
		if _, err := version("base"); err != nil {
			return err
		}
		if _, err := version("acme"); err == nil {
			return fmt.Errorf("the object of acme is still there")
		}
		return nil
	})
	statusContains(t, nodes["a"])("the replacement to be spent", `"replacement":null`)
	if out, err := replace("acme", "base"); err == nil || !strings.Contains(out, "already") {
		t.Errorf("typed again: %v: %s", err, out)
	}
}
