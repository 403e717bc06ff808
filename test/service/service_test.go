// Package service tests the Service kubernetes with real kube-apiservers, at addresses of
// a network namespace of its own: an EndpointSlice cannot have one of loopback.
package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
)

const (
	leaseTTL = 3 * time.Second
	port     = "6443"
)

var addresses = []string{"10.90.0.1", "10.90.0.2", "10.90.0.3"}

// rig is a control plane at addresses that the Service may have.
type rig struct {
	*testing.T
	c     *cluster.Cluster
	etcd  *etcdtest.Server // Lockstep's
	nodes []*node
	api   dynamic.Interface // of the first node
}

type node struct {
	id, address  string
	overrideFile string
	api          *cluster.APIServer
	sidecar      *cluster.Sidecar
}

// newRig makes the nodes. Nothing runs on them yet.
func newRig(t *testing.T, binaries ...string) *rig {
	t.Helper()
	ips := []net.IP{net.ParseIP(serviceIP), net.ParseIP(haproxyIP)}
	r := &rig{T: t}
	for i, address := range addresses {
		ips = append(ips, net.ParseIP(address))
		r.nodes = append(r.nodes, &node{
			id: fmt.Sprintf("cp-%d", i+1), address: address, overrideFile: filepath.Join(t.TempDir(), "override"),
		})
		r.run("ip", "addr", "add", address+"/32", "dev", "lo")
	}
	r.run("ip", "addr", "add", haproxyIP+"/32", "dev", "lo")
	r.run("ip", "link", "set", "lo", "up")
	r.c = cluster.NewAtForTest(t, ips, append(binaries, "kube-apiserver", "sidecar")...)
	r.etcd = r.c.Etcd
	return r
}

func (r *rig) run(line ...string) string {
	r.Helper()
	out, err := exec.CommandContext(r.Context(), line[0], line[1:]...).CombinedOutput()
	if err != nil {
		r.Fatalf("%s: %v\n%s", strings.Join(line, " "), err, out)
	}
	return string(out)
}

// sidecarCommand runs a command of the sidecar.
func (r *rig) sidecarCommand(args ...string) {
	r.Helper()
	r.run(append([]string{r.c.SidecarBinary()}, append(args, "--etcd-servers="+r.etcd.Endpoints()[0])...)...)
}

func (r *rig) startAPI(n *node, args ...string) {
	r.Helper()
	var err error
	args = append(args, "--shutdown-send-retry-after=true") // without it, open watches delay a stop for a minute
	if n.api, err = r.c.StartAPIServer(cluster.APIServerConfig{Name: n.id, Addr: net.JoinHostPort(n.address, port), Args: args}); err != nil {
		r.Fatal(err)
	}
	if n == r.nodes[0] {
		if r.api, err = dynamic.NewForConfig(n.api.Config()); err != nil {
			r.Fatal(err)
		}
	}
}

var shutdownDelay = 2 * time.Second

func (r *rig) startSidecar(n *node, args ...string) {
	r.Helper()
	var err error
	n.sidecar, err = r.c.StartSidecar(cluster.SidecarConfig{
		NodeID: n.id, Kubeconfig: n.api.Kubeconfig(), LeaseTTL: leaseTTL, ShutdownDelay: &shutdownDelay,
		EtcdServers: r.etcd.Endpoints(), Args: append([]string{"--override-file=" + n.overrideFile}, args...),
	})
	if err != nil {
		r.Fatal(err)
	}
}

var withService = []string{"--kubernetes-service", "--apiserver-readyz"}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

var (
	sliceKind     = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	endpointsKind = schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}
)

func (r *rig) object(ctx context.Context, kind schema.GroupVersionResource) (*unstructured.Unstructured, error) {
	return r.api.Resource(kind).Namespace("default").Get(ctx, "kubernetes", metav1.GetOptions{})
}

// inSlice returns the addresses of the slice.
func inSlice(o *unstructured.Unstructured) []string {
	out := []string{}
	entries, _, _ := unstructured.NestedSlice(o.Object, "endpoints")
	for _, e := range entries {
		all, _, _ := unstructured.NestedStringSlice(e.(map[string]any), "addresses")
		out = append(out, all...)
	}
	slices.Sort(out)
	return out
}

func inEndpoints(o *unstructured.Unstructured) []string {
	out := []string{}
	subsets, _, _ := unstructured.NestedSlice(o.Object, "subsets")
	for _, s := range subsets {
		entries, _, _ := unstructured.NestedSlice(s.(map[string]any), "addresses")
		for _, e := range entries {
			out = append(out, e.(map[string]any)["ip"].(string))
		}
	}
	slices.Sort(out)
	return out
}

// has checks what slice and Endpoints have.
func (r *rig) has(ctx context.Context, want ...string) error {
	slice, err := r.object(ctx, sliceKind)
	if err != nil {
		return err
	}
	old, err := r.object(ctx, endpointsKind)
	if err != nil {
		return err
	}
	if got := inSlice(slice); !slices.Equal(got, want) {
		return fmt.Errorf("the slice has %v, want %v", got, want)
	}
	if got := inEndpoints(old); !slices.Equal(got, want) {
		return fmt.Errorf("the Endpoints have %v, want %v", got, want)
	}
	return nil
}

func (r *rig) await(what string, want ...string) {
	r.Helper()
	began := time.Now()
	cluster.Await(r.T, what, func(ctx context.Context) error { return r.has(ctx, want...) })
	r.Logf("%s: after %s", what, time.Since(began).Round(time.Millisecond))
}

// shows waits until /status of a node has a text, without white space.
func (r *rig) shows(n *node, text string) {
	r.Helper()
	cluster.Await(r.T, n.id+" to show "+text, func(ctx context.Context) error {
		_, body, err := n.sidecar.Get(ctx, "/status")
		if err == nil && !strings.Contains(strings.Join(strings.Fields(body), ""), text) {
			err = fmt.Errorf("it shows %s", body)
		}
		return err
	})
}

// says waits until the table of `sidecar status` on each node has a text in one line; "|" is
// anything between. It does something before each reading.
func (r *rig) says(text string, before ...func()) {
	r.Helper()
	pattern := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(text), `\|`, ".*"))
	for _, n := range r.nodes {
		cluster.Await(r.T, n.id+" to say "+text, func(ctx context.Context) error {
			for _, do := range before {
				do()
			}
			table, err := exec.CommandContext(ctx, r.c.SidecarBinary(), "status", "--server", n.sidecar.URL()).CombinedOutput()
			if err == nil && !pattern.Match(table) {
				err = errors.New("it does not")
			}
			if err != nil {
				err = fmt.Errorf("%w:\n%s", err, table)
			}
			return err
		})
	}
}

// TestKubernetesService is long: each part needs three kube-apiservers, which take most of
// its time to start, and the parts leave the nodes as they found them.
func TestKubernetesService(t *testing.T) {
	t.Parallel()
	if !netns.Enter(t) {
		return
	}
	r := newRig(t)
	for _, n := range r.nodes {
		r.startAPI(n)
		r.startSidecar(n, withService...)
	}
	r.await("three nodes to be published", addresses...)
	for _, part := range []struct {
		name string
		run  func(*rig)
	}{
		{"the objects are as kube-apiserver writes them", wantForm},
		{"a cordon takes an address out", cordon},
		{"an override returns it in spite of the cordon", overrideCordon},
		{"a stop: not ready, then out of the Service, then resigned, then ended", stopInOrder},
		{"a kube-apiserver is killed", killAPI},
		{"a node is killed", killNode},
		{"the leader is paused", pauseLeader},
		{"the last address stays", keepLast},
		{"a stranger writes the Service, with the ID of another store", hijack},
		{"a stranger hides the Service", hide},
		{"a kube-apiserver writes the Service itself", forget},
		{"a sidecar runs without the flag", withoutFlag},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			was := r.T
			r.T = t
			defer func() { r.T = was }()
			part.run(r)
			r.await("all to be published again", addresses...)
		}) {
			return
		}
	}
	contend(r) // the last one: a minute would pass until the next repair
}

func wantForm(r *rig) {
	slice, err := r.object(r.Context(), sliceKind)
	r.must(err)
	old, err := r.object(r.Context(), endpointsKind)
	r.must(err)
	if got := slice.GetLabels()["kubernetes.io/service-name"]; got != "kubernetes" {
		r.Errorf("the slice has the service name %q", got)
	}
	if got := old.GetLabels()["endpointslice.kubernetes.io/skip-mirror"]; got != "true" {
		r.Errorf("the Endpoints have skip-mirror %q", got)
	}
	ports, _, _ := unstructured.NestedSlice(slice.Object, "ports")
	if got := fmt.Sprint(ports); got != "[map[name:https port:6443 protocol:TCP]]" {
		r.Errorf("the slice has the ports %s", got)
	}
	for _, o := range []*unstructured.Unstructured{slice, old} {
		if revisionOf(o) == 0 || o.GetAnnotations()["lockstep.dev/store"] == "" {
			r.Errorf("%s has the annotations %v", o.GetKind(), o.GetAnnotations())
		}
	}
}

func revisionOf(o *unstructured.Unstructured) int64 {
	revision, _ := strconv.ParseInt(o.GetAnnotations()["lockstep.dev/revision"], 10, 64)
	return revision
}

func cordon(r *rig) {
	r.sidecarCommand("cordon", "cp-2")
	r.await("cp-2 to leave", addresses[0], addresses[2])
	r.shows(r.nodes[0], `"serves":false,"reason":"Cordoned"`)
	r.sidecarCommand("uncordon", "cp-2")
}

// overrideCordon lets a cordoned node serve. Its address is in the Service while it does.
func overrideCordon(r *rig) {
	n := r.nodes[1]
	r.sidecarCommand("cordon", n.id)
	r.await("it to leave", without(n)...)
	override := func(args ...string) {
		r.run(append([]string{r.c.SidecarBinary(), "override"}, append(args, "--override-file="+n.overrideFile)...)...)
	}
	override("begin", "--for=10m", "--yes")
	r.await("it to return", addresses...)
	cluster.Await(r.T, "its gate to be open", n.sidecar.Readyz)
	r.shows(r.nodes[0], `"serves":true,"reason":"Overridden"`)
	r.sidecarCommand("cordon", n.id, "--message=again")
	r.must(r.has(r.Context(), addresses...))
	override("end")
	r.await("it to leave again", without(n)...)
	r.shows(r.nodes[0], `"serves":false,"reason":"Cordoned"`)
	r.sidecarCommand("uncordon", n.id)
}

// leader returns the node that leads.
func (r *rig) leader() *node {
	r.Helper()
	var out *node
	cluster.Await(r.T, "a leader", func(ctx context.Context) error {
		for _, n := range r.nodes {
			if s, err := n.sidecar.Status(ctx); err == nil && s.Election.State == "leading" {
				out = n
				return nil
			}
		}
		return errors.New("no node leads")
	})
	return out
}

// stopInOrder observes etcd, which the kube-apiservers share: its revisions are the order.
func stopInOrder(r *rig) {
	n := r.leader()
	client := r.etcd.Client(r.T)
	keys, err := client.Get(r.Context(), "/lockstep/kubernetes/reconciler/leader/", clientv3.WithPrefix())
	r.must(err)
	events := client.Watch(r.Context(), "/", clientv3.WithPrefix(), clientv3.WithRev(keys.Header.Revision+1))
	began := time.Now()
	r.must(n.sidecar.Signal(syscall.SIGTERM))
	var closed, out, resigned int64
	for resigned == 0 {
		for _, e := range (<-events).Events {
			key := string(e.Kv.Key)
			switch {
			case key == "/lockstep/presence/"+n.id && closed == 0 && strings.Contains(string(e.Kv.Value), "ShuttingDown"):
				closed = e.Kv.ModRevision
			case key == "/registry/endpointslices/default/kubernetes" && out == 0 && !strings.Contains(string(e.Kv.Value), n.address):
				out = e.Kv.ModRevision
			case e.Type == clientv3.EventTypeDelete && slices.ContainsFunc(keys.Kvs, func(kv *mvccpb.KeyValue) bool {
				return string(kv.Key) == key && string(kv.Value) == n.id
			}):
				resigned = e.Kv.ModRevision
			}
		}
	}
	if closed == 0 || out <= closed || resigned <= out {
		r.Errorf("the gate was closed at revision %d, the address left at %d, the leadership ended at %d", closed, out, resigned)
	}
	if code, body, err := n.sidecar.Get(r.Context(), "/readyz"); code != 503 || !strings.Contains(body, "ShuttingDown") {
		r.Errorf("/readyz after the resignation: got %d %s (%v)", code, body, err)
	}
	<-n.sidecar.Done()
	if took := time.Since(began); took < shutdownDelay || n.sidecar.ExitCode() != 0 {
		r.Errorf("it ended after %s with %d", took, n.sidecar.ExitCode())
	}
	r.startSidecar(n, withService...)
}

// without are all addresses except that of a node.
func without(n *node) []string {
	return slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return a == n.address })
}

func killAPI(r *rig) {
	n := r.nodes[1]
	r.must(n.api.Kill())
	r.await("its address to leave", without(n)...)
	r.startAPI(n)
}

func killNode(r *rig) {
	n := r.nodes[2]
	r.must(n.sidecar.Kill())
	r.must(n.api.Kill())
	r.await("its address to leave", without(n)...)
	r.shows(r.nodes[0], `"serves":false,"reason":"NoPresence"`)
	r.startAPI(n)
	r.startSidecar(n, withService...)
}

// pauseLeader pauses the sidecar that would write first. Another one does.
func pauseLeader(r *rig) {
	n := r.leader()
	r.must(n.sidecar.Signal(syscall.SIGSTOP))
	other := r.nodes[0]
	if other == n {
		other = r.nodes[1]
	}
	r.sidecarCommand("cordon", other.id)
	rest := without(other)
	cluster.Await(r.T, "the other address to leave", func(ctx context.Context) error {
		slice, err := r.object(ctx, sliceKind)
		if err == nil && slices.Contains(inSlice(slice), other.address) {
			err = fmt.Errorf("it has %v", inSlice(slice))
		}
		return err
	})
	r.await("that of the paused one as well", slices.DeleteFunc(rest, func(a string) bool { return a == n.address })...)
	r.must(n.sidecar.Signal(syscall.SIGCONT))
	r.sidecarCommand("uncordon", other.id)
}

func keepLast(r *rig) {
	for _, id := range []string{"cp-1", "cp-2"} {
		r.sidecarCommand("cordon", id)
	}
	r.await("one to be left", addresses[2])
	r.sidecarCommand("cordon", "cp-3", "--force")
	r.shows(r.nodes[0], `"reason":"NoneReady"`)
	r.must(r.has(r.Context(), addresses[2]))
	for _, n := range r.nodes {
		r.sidecarCommand("uncordon", n.id)
	}
}

// hijack writes once what any client may write that may change the Service. It is repaired
// at once, whatever the client claims: neither its field manager nor the ID counts.
func hijack(r *rig) {
	byHand := []byte(`{"metadata":{"annotations":{"lockstep.dev/store":"ffffffffffffffffffffffffffffffff"}},"endpoints":[{"addresses":["10.90.0.77"],"conditions":{"ready":true}}]}`)
	_, err := r.api.Resource(sliceKind).Namespace("default").Patch(r.Context(), "kubernetes", types.MergePatchType, byHand, metav1.PatchOptions{FieldManager: "kube-apiserver"})
	r.must(err)
	r.await("the stranger's address to leave", addresses...)
	slice, err := r.object(r.Context(), sliceKind)
	r.must(err)
	if got := slice.GetAnnotations()["lockstep.dev/store"]; strings.HasPrefix(got, "ffff") {
		r.Errorf("the slice has the store ID %s", got)
	}
}

// contend writes it again and again, so that repairs pause. Every node names the client, and no
// upgrade may start.
func contend(r *rig) {
	write := func() {
		byHand := fmt.Sprintf(`{"endpoints":[{"addresses":["10.90.0.%d"],"conditions":{"ready":true}}]}`, 70+time.Now().UnixNano()%100)
		_, err := r.api.Resource(sliceKind).Namespace("default").Patch(r.Context(), "kubernetes", types.MergePatchType, []byte(byHand), metav1.PatchOptions{FieldManager: "cloud-op"})
		r.must(err)
	}
	r.says(`a client that calls itself "cloud-op" (field manager) replaces what Lockstep writes: stop it; the audit log has its user`, write)
	r.says(`UPGRADE|do not start the next upgrade`, write)
}

// forget starts a kube-apiserver without the flag. It is named, and there is no fight.
func forget(r *rig) {
	n := r.nodes[1]
	r.must(n.api.Stop())
	r.startAPI(n, "--endpoint-reconciler-type=lease")
	for _, other := range r.nodes {
		r.shows(other, `"reason":"ReconcilerRuns","message":"akube-apiserverwritestheServiceitself`)
	}
	r.await("both objects to be left to it", n.address) // each has a count of its own
	r.says("a kube-apiserver writes the Service itself, and replaces what Lockstep writes: start every kube-apiserver with --endpoint-reconciler-type=none; " +
		"it now has the address of " + n.id + " alone, so it is probably that one")
	r.says("UPGRADE|do not start the next upgrade")
	slice, err := r.object(r.Context(), sliceKind)
	r.must(err)
	// It compares every ten seconds: twice that, without a write.
	changed, err := r.api.Resource(sliceKind).Namespace("default").Watch(r.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=kubernetes", ResourceVersion: slice.GetResourceVersion(),
	})
	r.must(err)
	defer changed.Stop()
	select {
	case e := <-changed.ResultChan():
		r.Errorf("the slice was written again: %v", e.Object)
	case <-time.After(12 * time.Second):
	}
	for _, other := range r.nodes {
		r.shows(other, `"reason":"ReconcilerRuns"`)
	}
	r.must(n.api.Stop())
	r.startAPI(n)
}

// withoutFlag turns one sidecar off and on again.
func withoutFlag(r *rig) {
	n := r.nodes[2]
	r.must(n.sidecar.Stop())
	r.startSidecar(n)
	r.await("its address to leave", without(n)...)
	r.shows(r.nodes[0], `"serves":false,"reason":"NotPublishing"`)
	r.says(n.id + "|its sidecar runs without --kubernetes-service, and others run with it: Lockstep does not write its address into the Service kubernetes; start it with the flag")
	// Lockstep leaves what another client writes now.
	byHand := []byte(`{"endpoints":[{"addresses":["10.90.0.3"],"conditions":{"ready":true}}]}`)
	_, err := r.api.Resource(sliceKind).Namespace("default").Patch(r.Context(), "kubernetes", types.MergePatchType, byHand, metav1.PatchOptions{FieldManager: "kube-apiserver"})
	r.must(err)
	r.shows(r.nodes[0], `"reason":"NotPublishing","message":"cp-3isinservice`)
	r.must(n.sidecar.Stop())
	r.startSidecar(n, withService...)
}

// TestRestored restores Lockstep's etcd, whose revision goes back. One kube-apiserver is
// enough for that.
func TestRestored(t *testing.T) {
	t.Parallel()
	if !netns.Enter(t) {
		return
	}
	r := newRig(t, "etcdutl")
	var err error
	r.etcd, err = etcdtest.Start(etcdtest.Config{Dir: filepath.Join(t.TempDir(), "etcd")})
	r.must(err)
	r.startAPI(r.nodes[0])
	r.nodes = r.nodes[:2]
	r.nodes[1].api = r.nodes[0].api
	t.Cleanup(func() {
		for _, n := range r.nodes { // they need the etcd to stop
			if err := n.sidecar.Stop(); err != nil {
				t.Error(err)
			}
		}
		if err := r.etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, n := range r.nodes {
		r.startSidecar(n, "--kubernetes-service", "--apiserver-address="+n.address)
	}
	r.await("two nodes to be published", addresses[0], addresses[1])
	snapshot := etcdtest.Restoration{Etcdutl: etcdtest.Etcdutl(t), File: filepath.Join(t.TempDir(), "snapshot")}
	r.must(r.etcd.Save(t.Context(), snapshot.File))
	client := r.etcd.Client(t)
	for range 500 { // so that the revision stays lower for the rest of the test
		_, err := client.Put(t.Context(), "other", "x")
		r.must(err)
	}
	r.sidecarCommand("cordon", "cp-2")
	r.await("one to leave", addresses[0])
	slice, err := r.object(t.Context(), sliceKind)
	r.must(err)
	before := revisionOf(slice)
	r.must(r.etcd.Restore(t.Context(), snapshot))
	r.await("it to return with its record", addresses[0], addresses[1])
	slice, err = r.object(t.Context(), sliceKind)
	r.must(err)
	if now := revisionOf(slice); now == 0 || now >= before {
		t.Errorf("got revision %d, want one before %d", now, before)
	}
}

// TestRoll is long: it restarts three nodes one after another, twice. At first the
// kube-apiservers write the Service themselves. Then it is turned on, and then off.
func TestRoll(t *testing.T) {
	t.Parallel()
	if !netns.Enter(t) {
		return
	}
	r := newRig(t)
	lease := []string{"--endpoint-reconciler-type=lease", "--shutdown-delay-duration=1s"}
	none := []string{"--shutdown-delay-duration=1s"}
	for _, n := range r.nodes {
		r.startAPI(n, lease...)
		r.startSidecar(n)
	}
	r.await("the kube-apiservers to write three addresses", addresses...)
	for _, n := range r.nodes {
		r.restart(n, none, withService)
	}
	r.await("the sidecars to write three addresses", addresses...)
	for _, n := range r.nodes {
		r.shows(n, `"reason":"Published"`)
	}
	for _, n := range r.nodes {
		r.restart(n, lease, nil)
	}
	r.await("the kube-apiservers to write three addresses again", addresses...)
	slice, err := r.object(t.Context(), sliceKind)
	r.must(err)
	if got := revisionOf(slice); got != 0 {
		t.Errorf("the slice has revision %d of Lockstep, want it to be kube-apiserver's", got)
	}
}

// restart stops a node as a kubelet does, both containers at the same moment, and starts
// it again. If the sidecar writes the Service, its address has left before the
// kube-apiserver ends.
func (r *rig) restart(n *node, apiArgs, sidecarArgs []string) {
	r.Helper()
	observer := r.nodes[0]
	if observer == n {
		observer = r.nodes[1]
	}
	var err error
	r.api, err = dynamic.NewForConfig(observer.api.Config())
	r.must(err)
	before, err := r.object(r.Context(), sliceKind)
	r.must(err)
	r.must(n.sidecar.Signal(syscall.SIGTERM))
	r.must(n.api.Signal(syscall.SIGTERM))
	<-n.api.Done()
	after, err := r.object(r.Context(), sliceKind)
	r.must(err)
	if revisionOf(before) > 0 && revisionOf(after) > 0 && slices.Contains(inSlice(after), n.address) && len(inSlice(after)) > 1 {
		r.Errorf("the kube-apiserver of %s has ended, and the slice has %v", n.id, inSlice(after))
	}
	<-n.sidecar.Done()
	r.startAPI(n, apiArgs...)
	r.startSidecar(n, sidecarArgs...)
	cluster.Await(r.T, n.id+" to be ready", n.sidecar.Readyz)
	r.Logf("%s: before %v, then %v", n.id, inSlice(before), inSlice(after))
}
