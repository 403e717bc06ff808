package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/balancers"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var lockstepKeys = keyspace.Under("/lockstep/")

// rollbackObjects are what changes between the releases in each way in which an object can:
// one that 1.1.0 drops and one that it adds; one that cannot be changed, and is recreated; a
// CRD that gains a version and a field, and an object that uses both.
var rollbackObjects = map[string]string{
	"1.0.0": ofRelease("1.0.0") + `---
apiVersion: v1
kind: ConfigMap
metadata: {name: dropped, namespace: default}
` + crd("") + `---
apiVersion: test.lockstep.dev/v1
kind: Widget
metadata: {name: widget, namespace: default}
spec: {size: 1}
`,
	"1.1.0": ofRelease("1.1.0") + `---
apiVersion: v1
kind: ConfigMap
metadata: {name: added, namespace: default}
` + crd("color: {type: string}") + `---
apiVersion: test.lockstep.dev/v2
kind: Widget
metadata: {name: widget, namespace: default}
spec: {size: 1, color: red}
`,
}

func ofRelease(release string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: ConfigMap
metadata: {name: immutable, namespace: default}
immutable: true
data: {release: %s}
`, release)
}

// crd has a second version if it has more fields.
func crd(more string) string {
	version := `  - name: %s
    served: true
    storage: %t
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, %s}}}}}
`
	versions := fmt.Sprintf(version, "v1", true, more)
	if more != "" {
		versions += fmt.Sprintf(version, "v2", false, more)
	}
	return `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.lockstep.dev}
spec:
  group: test.lockstep.dev
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
` + strings.ReplaceAll(versions, ", }", "}")
}

func (r *clientsRig) etcdServers() (out []string) {
	for _, m := range r.members {
		out = append(out, "http://"+m.Addr())
	}
	return out
}

// killMember kills the member that leads etcd. restart starts it again, and returns when it serves.
func (r *clientsRig) killMember() (restart func()) {
	r.Helper()
	client := etcdtest.Dial(r.T, r.etcdServers()...)
	for _, m := range r.members {
		status, err := client.Status(r.Context(), "http://"+m.Addr())
		r.must(err)
		if status.Leader == status.Header.MemberId {
			r.must(m.Process().Kill())
			return func() { r.must(m.Restart()); r.must(m.Await(r.Context())) }
		}
	}
	r.Fatal("no member of etcd leads")
	return nil
}

// rollback runs a subcommand of `sidecar rollback`, and returns what it prints.
func (r *clientsRig) rollback(args ...string) (string, error) {
	args = append(append([]string{"rollback"}, args...), "--etcd-servers="+strings.Join(r.etcdServers(), ","))
	out, err := exec.CommandContext(r.Context(), r.c.SidecarBinary(), args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("sidecar %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// status reads the reconciler status.
func (r *clientsRig) status(client *clientv3.Client) (protocol.Status, int64) {
	r.Helper()
	got, err := client.Get(r.Context(), lockstepKeys.Status())
	r.must(err)
	if len(got.Kvs) == 0 {
		r.Fatal("there is no status")
	}
	return status.Decode(&etcd.KV{Value: got.Kvs[0].Value}).Status, got.Header.Revision
}

// killAtWork kills the sidecar of the first leader after begin that has written that it changes the objects. It returns its
// node, and requires that another leader finishes.
func (r *clientsRig) killAtWork(release string, begin func()) *balancers.Node {
	r.Helper()
	client := etcdtest.Dial(r.T, r.etcdServers()...)
	_, revision := r.status(client)
	ctx, stop := context.WithTimeout(r.Context(), time.Minute)
	defer stop()
	begin()
	for changes := range client.Watch(ctx, lockstepKeys.Status(), clientv3.WithRev(revision+1)) {
		for _, e := range changes.Events {
			now := status.Decode(&etcd.KV{Value: e.Kv.Value}).Status
			at := slices.IndexFunc(r.fleet.Nodes, func(n *balancers.Node) bool { return n.ID == string(now.Leader) })
			if now.State != protocol.Working || at < 0 {
				continue
			}
			killed := r.fleet.Nodes[at]
			r.must(killed.Sidecar.Kill())
			r.must(killed.StartSidecar(release))
			r.must(r.fleet.AwaitDone(r.Context(), release))
			if done, _ := r.status(client); done.Epoch == now.Epoch {
				r.Errorf("%s was killed after it had finished: %s", killed.ID, done)
			}
			return killed
		}
	}
	r.Fatal("no leader changes the objects")
	return nil
}

// rollBackTwo takes two nodes back. Their gates stay closed, because the objects need a
// kube-apiserver of the newer release, until people say that they want the objects back. The leader that takes them
// back is killed while it does.
func rollBackTwo(r *clientsRig) {
	old, rest := r.fleet.Nodes[:2], r.fleet.Nodes[2:]
	r.must(balancers.RollBack("1.0.0", old...))
	for _, n := range old {
		cluster.Await(r.T, "the gate of "+n.ID+" to name its release", func(ctx context.Context) error {
			status, err := n.Sidecar.Status(ctx)
			if err == nil && (status.Ready.Ready || status.Ready.Reason != "ReleaseTooOld") {
				err = fmt.Errorf("its gate is open=%t: %s", status.Ready.Ready, status.Ready.Reason)
			}
			return err
		})
	}
	r.must(r.traffic.AwaitNodes(r.Context(), rest...))
	r.must(r.traffic.More(r.Context(), 100))
	killed := r.killAtWork("1.0.0", func() {
		_, err := r.rollback("begin", "--to=1.0.0")
		r.must(err)
	})
	if !slices.Contains(old, killed) {
		r.Errorf("%s has led in the rollback", killed.ID)
	}
	for _, n := range old {
		r.must(n.AwaitReady(r.Context()))
	}
	r.wantGoneBack(rest[0])
}

// wantGoneBack requires that the objects have gone back, and that what 1.0.0 drops is still
// there for the nodes of 1.1.0.
func (r *clientsRig) wantGoneBack(newer *balancers.Node) {
	r.Helper()
	r.must(r.fleet.AwaitDone(r.Context(), "1.0.0"))
	if err := errors.Join(r.find(newer, "configmaps", "added"), r.hasObjectsBack(newer)); err != nil {
		r.Errorf("after the first node has gone back: %v", err)
	}
}

// hasObjectsBack returns an error unless a kube-apiserver has all objects as 1.0.0 has them.
func (r *clientsRig) hasObjectsBack(n *balancers.Node) error {
	r.Helper()
	return errors.Join(
		r.has(n, "configmaps", "platform", "1.0.0", "data", "release"), r.find(n, "configmaps", "dropped"),
		r.has(n, "configmaps", "immutable", "1.0.0", "data", "release"), r.has(n, "widgets", "widget", "", "spec", "color"),
	)
}

// awaitGoneBack returns when the rollback has ended by itself, all gates are open, and nothing of 1.1.0 is left.
func (r *clientsRig) awaitGoneBack() {
	r.Helper()
	r.must(r.fleet.AwaitReady(r.Context()))
	r.must(r.fleet.AwaitDone(r.Context(), "1.0.0"))
	for _, n := range r.fleet.Nodes {
		if err := r.hasObjectsBack(n); err != nil {
			r.Errorf("at the end, %s: %v", n.ID, err)
		}
	}
	cluster.Await(r.T, "the rollback to end", func(context.Context) error {
		out, err := r.rollback("status")
		if err == nil && !strings.Contains(out, "no rollback is under way") {
			err = errors.New(out)
		}
		return err
	})
	cluster.Await(r.T, "what 1.0.0 drops to be deleted", func(context.Context) error {
		if err := r.find(r.fleet.Nodes[0], "configmaps", "added"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// rollBackByCrashes ends the rollback that rollBackTwo has begun: the last newer node and the
// sidecar that leads are killed at the same moment, and that node again while it goes back.
func rollBackByCrashes(r *clientsRig) {
	last := r.fleet.Nodes[2]
	leader, err := balancers.AwaitLeader(r.Context(), r.fleet.Nodes[:2]...)
	r.must(err)
	r.must(errors.Join(leader.Sidecar.Kill(), last.Kill()))
	r.must(leader.StartSidecar("1.0.0"))
	r.must(last.Start("1.0.0"))
	r.must(last.Kill())
	r.must(last.Start("1.0.0"))
	r.awaitGoneBack()
}

// upgradeAndRollBack takes all nodes to 1.1.0 and back. All but the node that is stopped serve
// all the time, and the rollback ends by itself. The member that leads etcd is killed before the first node takes the
// objects back, and another one before the second node stops.
func upgradeAndRollBack(r *clientsRig) {
	_, err := balancers.Roll(r.Context(), "1.1.0", r.fleet.Nodes...)
	r.must(err)
	r.must(r.fleet.AwaitDone(r.Context(), "1.1.0"))
	uid := r.uid("immutable")
	out, err := r.rollback("begin", "--to=1.0.0", "-o=json")
	r.must(err)
	var printed struct{ Rollback struct{ Blockers []string } }
	if err := json.Unmarshal([]byte(out), &printed); err != nil || len(printed.Rollback.Blockers) > 0 {
		r.Errorf("got %s, %v; want that no node blocks", out, err)
	}
	before := r.traffic.Begin()
	first, rest := r.fleet.Nodes[0], r.fleet.Nodes[1:]
	restart := r.killMember()
	r.rollBackInTurn(first)
	r.wantGoneBack(rest[1])
	restart()
	restart = r.killMember()
	if r.uid("immutable") == uid {
		r.Error("the immutable object was not recreated")
	}
	_, err = balancers.Roll(r.Context(), "1.0.0", rest...)
	r.must(err)
	restart()
	r.awaitGoneBack()
	for way, n := range r.traffic.Since(before) {
		if n.Requests < 200 {
			r.Errorf("got %d requests of clients of %s in the rollback: too few to show anything", n.Requests, balancers.Ways[way])
		}
	}
}

// rollBackInTurn takes a node back in its turn, which ends when the node serves: so it has led before.
func (r *clientsRig) rollBackInTurn(n *balancers.Node) {
	r.Helper()
	turn := func(args ...string) {
		args = append(append([]string{"turn"}, args...), "--etcd-servers="+strings.Join(r.etcdServers(), ","), "--server="+n.Sidecar.URL())
		if out, err := exec.CommandContext(r.Context(), r.c.SidecarBinary(), args...).CombinedOutput(); err != nil {
			r.must(fmt.Errorf("sidecar %s: %w: %s", strings.Join(args, " "), err, out))
		}
	}
	turn("begin", "--drain=1ms") // it stops with a delay of its own
	r.must(balancers.RollBack("1.0.0", n))
	turn("end", "--wait=1m")
	r.must(n.Sidecar.Readyz(r.Context()))
}

func (r *clientsRig) get(n *balancers.Node, resource, name string) (*unstructured.Unstructured, error) {
	r.Helper()
	client, err := dynamic.NewForConfig(n.API.Config())
	r.must(err)
	kind := schema.GroupVersionResource{Version: "v1", Resource: resource}
	if resource == "widgets" {
		kind.Group = "test.lockstep.dev"
	}
	return client.Resource(kind).Namespace("default").Get(r.Context(), name, metav1.GetOptions{})
}

func (r *clientsRig) find(n *balancers.Node, resource, name string) error {
	r.Helper()
	_, err := r.get(n, resource, name)
	return err
}

// has returns an error unless a field has a value; empty: it does not exist.
func (r *clientsRig) has(n *balancers.Node, resource, name, want string, field ...string) error {
	r.Helper()
	o, err := r.get(n, resource, name)
	if err != nil {
		return err
	}
	if got, _, err := unstructured.NestedString(o.Object, field...); err != nil || got != want {
		return fmt.Errorf("%s is %q, want %q (%v)", strings.Join(field, "."), got, want, err) //nolint:errorlint // it may be nil
	}
	return nil
}

func (r *clientsRig) uid(name string) string {
	r.Helper()
	o, err := r.get(r.fleet.Nodes[0], "configmaps", name)
	r.must(err)
	return string(o.GetUID())
}
