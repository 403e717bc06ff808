package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// nameless is a control plane whose store and mark people change until they look as if written by
// a program that does not know the names of bundles.
type nameless struct {
	*testing.T
	c    *cluster.Cluster
	api  *cluster.APIServer
	etcd *clientv3.Client
	maps dynamic.ResourceInterface // in default
	mark dynamic.ResourceInterface
}

// TestNamelessStore starts this program on the store of an older one. It takes the name of its
// bundle over without a hold and without a write to an object, and knows it from then on, also
// after an older leader wrote the status again.
func TestNamelessStore(t *testing.T) {
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
	n := &nameless{
		T: t, c: c, api: api, etcd: etcdtest.Dial(t, c.Endpoints()...),
		maps: client.Resource(configMaps).Namespace("default"), mark: client.Resource(configMaps).Namespace("kube-system"),
	}
	a, b := n.start("a", "acme", "1.0.0"), n.start("b", "acme", "1.0.0")
	for _, s := range []*cluster.Sidecar{a, b} {
		cluster.Await(t, s.NodeID+" to be ready", s.Readyz)
	}
	n.stop(b, a)
	n.forgetStatus()
	n.forgetRecords("a", "b")
	n.forgetMark()
	before := n.version()

	a = n.start("a", "acme", "1.0.0") // b is registered without a name
	cluster.Await(t, "a to be ready", a.Readyz)
	n.wantNamed(a)
	n.wantNoHold(a)
	if now := n.version(); now != before {
		t.Errorf("the object was written: version %s, and before %s", now, before)
	}

	// A leader that does not know names wrote the status: the mark kept the name.
	n.stop(a)
	n.forgetStatus()
	other := n.start("a", "base", "1.1.0")
	statusContains(t, other)("the other bundle to be held", `"kind":"Hold","rule":"`+string(protocol.HoldForBundle)+`"`)
	if now := n.version(); now != before {
		t.Errorf("the object was written by the leader of another bundle: version %s, and before %s", now, before)
	}
	n.stop(other)
	n.forgetStatus()
	a = n.start("a", "acme", "1.1.0")
	statusContains(t, a)("the upgrade of its own bundle", `"state":"DONE","version":"1.1.0"`)
	cluster.Await(t, "a to be ready", a.Readyz)
	n.wantNamed(a)
	n.wantNoHold(a)
}

func (n *nameless) start(id, name, release string) *cluster.Sidecar {
	n.Helper()
	f := bundleDir{t: n.T, dir: n.TempDir()}
	f.write(map[string]string{
		"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: " + name + "}\nrelease: " + release + "\nprunePolicy: Immediately\n",
		"own.yaml":    manifest("ConfigMap", "of-"+name, "data: {a: b}"),
	})
	return startSidecar(n.T, n.c, cluster.SidecarConfig{NodeID: id, Kubeconfig: n.api.Kubeconfig(), Bundle: f.dir})
}

func (n *nameless) stop(all ...*cluster.Sidecar) {
	n.Helper()
	for _, s := range all {
		if err := s.Stop(); err != nil {
			n.Fatal(err)
		}
	}
}

// version is the resourceVersion of the object of acme.
func (n *nameless) version() string {
	n.Helper()
	o, err := n.maps.Get(n.Context(), "of-acme", metav1.GetOptions{})
	if err != nil {
		n.Fatal(err)
	}
	return o.GetResourceVersion()
}

// edit writes a message of the store without the fields that forget clears.
func (n *nameless) edit(key string, m proto.Message, forget func()) {
	n.Helper()
	now, err := n.etcd.Get(n.Context(), key)
	if err != nil || len(now.Kvs) != 1 {
		n.Fatalf("%s: got %v, %v", key, now, err)
	}
	if err := proto.Unmarshal(now.Kvs[0].Value, m); err != nil {
		n.Fatal(err)
	}
	forget()
	value, err := proto.Marshal(m)
	if err != nil {
		n.Fatal(err)
	}
	if string(value) == string(now.Kvs[0].Value) {
		n.Fatalf("%s had no name", key)
	}
	if _, err := n.etcd.Put(n.Context(), key, string(value)); err != nil {
		n.Fatal(err)
	}
}

func (n *nameless) forgetStatus() {
	n.Helper()
	var m lockstepv1.ReconcilerStatus
	n.edit(statusKey, &m, func() { m.Bundle = "" })
}

func (n *nameless) forgetRecords(ids ...string) {
	n.Helper()
	for _, id := range ids {
		var m lockstepv1.Node
		n.edit("/lockstep/nodes/"+id, &m, func() { m.GetStatus().Bundle = "" })
	}
}

func (n *nameless) forgetMark() {
	n.Helper()
	o, err := n.mark.Get(n.Context(), "lockstep", metav1.GetOptions{})
	if err != nil {
		n.Fatal(err)
	}
	unstructured.RemoveNestedField(o.Object, "data", "bundle")
	if _, err := n.mark.Update(n.Context(), o, metav1.UpdateOptions{FieldManager: "kubectl-edit"}); err != nil {
		n.Fatal(err)
	}
}

// wantNamed waits until record, status and mark contain the name.
func (n *nameless) wantNamed(s *cluster.Sidecar) {
	n.Helper()
	cluster.Await(n.T, "the name everywhere", func(ctx context.Context) error {
		o, err := n.mark.Get(ctx, "lockstep", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if name, _, _ := unstructured.NestedString(o.Object, "data", "bundle"); name != "acme" {
			return fmt.Errorf("the mark has the name %q", name)
		}
		_, body, err := s.Get(ctx, "/status")
		if err == nil && strings.Count(body, `"bundle": "acme"`) < 2 { // the status, and the record of the node
			err = errors.New(body)
		}
		return err
	})
}

// wantNoHold requires that a sidecar never held because of a name.
func (n *nameless) wantNoHold(s *cluster.Sidecar) {
	n.Helper()
	log, err := os.ReadFile(s.LogFile())
	if err != nil {
		n.Fatal(err)
	}
	text := string(log)
	if i := strings.LastIndex(text, "msg=started"); i >= 0 { // earlier starts write into the same file
		text = text[i:]
	}
	if strings.Contains(text, "step=Hold rule="+string(protocol.HoldForBundle)) {
		n.Errorf("it has held:\n%s", text)
	}
}
