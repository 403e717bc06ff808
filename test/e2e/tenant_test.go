package e2e_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

var serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}

const (
	statusKey = "/lockstep/kubernetes/reconciler/status"
	// tenantPause makes 50 requests in a second.
	tenantPause = 20 * time.Millisecond
)

// tenant is a user with the rights of an editor in one namespace, who gives
// ServiceAccounts all that Lockstep writes on objects.
type tenant struct {
	t                *testing.T
	admin, own       dynamic.Interface
	label            string
	accepted, denied atomic.Int64
}

func newTenant(t *testing.T, api *cluster.APIServer) *tenant {
	t.Helper()
	admin, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.CopyConfig(api.Config())
	cfg.Impersonate.UserName = "tenant"
	cfg.QPS = -1
	own, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	x := &tenant{t: t, admin: admin, own: own}
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	x.make(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"tenant"}}`)
	x.make(rbac.WithResource("roles"), "tenant", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"edit"},"rules":[{"apiGroups":[""],"resources":["serviceaccounts"],"verbs":["*"]}]}`)
	x.make(rbac.WithResource("rolebindings"), "tenant", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"edit"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"edit"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"tenant"}]}`)
	return x
}

func (x *tenant) make(gvr schema.GroupVersionResource, ns, text string) {
	x.t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(text)); err != nil {
		x.t.Fatal(err)
	}
	if _, err := x.admin.Resource(gvr).Namespace(ns).Create(x.t.Context(), obj, metav1.CreateOptions{}); err != nil {
		x.t.Fatal(err)
	}
}

// learn reads the label of the set, as any user can, and waits until the tenant has
// its rights and the fence is in force.
func (x *tenant) learn() {
	x.t.Helper()
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	obj, err := x.admin.Resource(maps).Namespace("kube-system").Get(x.t.Context(), "lockstep", metav1.GetOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	x.label = obj.GetLabels()["applyset.kubernetes.io/id"]
	cluster.Await(x.t, "the fence to refuse the tenant", func(ctx context.Context) error {
		err := x.create(ctx, "probe", "7", nil, metav1.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "belong to Lockstep") {
			return fmt.Errorf("got %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}

// passFence gives the tenant the right that the fence asks for, so that only what
// the leader believes is left to protect the set.
func (x *tenant) passFence() {
	x.t.Helper()
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	x.make(rbac.WithResource("roles"), "kube-system", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"parent"},
		"rules":[{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["lockstep"],"verbs":["update"]}]}`)
	x.make(rbac.WithResource("rolebindings"), "kube-system", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"parent"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"parent"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"tenant"}]}`)
	cluster.Await(x.t, "the fence to let the tenant pass", func(ctx context.Context) error {
		return x.create(ctx, "stable-0", "7", nil)
	})
}

// create creates a ServiceAccount with our label, a content epoch and more data.
func (x *tenant) create(ctx context.Context, name, epoch string, data []byte, dryRun ...string) error {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}}
	obj.SetName(name)
	obj.SetLabels(map[string]string{"applyset.kubernetes.io/part-of": x.label})
	annotations := map[string]string{
		"lockstep.dev/content-epoch": epoch, "lockstep.dev/release": "9.0.0", "lockstep.dev/min-apiserver-release": "9.0.0", "lockstep.dev/form": "x",
	}
	if data != nil {
		annotations["tenant/data"] = base64.StdEncoding.EncodeToString(data)
	}
	obj.SetAnnotations(annotations)
	_, err := x.own.Resource(serviceAccounts).Namespace("tenant").Create(ctx, obj, metav1.CreateOptions{FieldManager: "lockstep", DryRun: dryRun})
	return err
}

// epochs are what a tenant may think of.
var epochs = []string{"1000", "4503599627370496", "9007199254740992", "9223372036854775807", "garbage", "2"}

// work creates, patches and deletes ServiceAccounts until ctx ends.
func (x *tenant) work(ctx context.Context) error {
	accounts := x.own.Resource(serviceAccounts).Namespace("tenant")
	tick := time.NewTicker(tenantPause)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		name, epoch := fmt.Sprintf("busy-%d", i/3%7), epochs[i%len(epochs)]
		var err error
		switch i % 3 {
		case 0:
			err = x.create(ctx, name, epoch, nil)
		case 1:
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"lockstep.dev/content-epoch":%q,"lockstep.dev/prune":"enabled"}}}`, epoch)
			_, err = accounts.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "lockstep"})
		case 2:
			err = accounts.Delete(ctx, name, metav1.DeleteOptions{})
		}
		switch {
		case err == nil:
			x.accepted.Add(1)
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			x.denied.Add(1)
		case ctx.Err() == nil:
			return fmt.Errorf("request %d of the tenant: %w", i, err)
		}
	}
}

// start starts the work, which ends with the test.
func (x *tenant) start() {
	ctx, cancel := context.WithCancel(x.t.Context())
	done := make(chan error, 1)
	go func() { done <- x.work(ctx) }()
	x.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			x.t.Error(err)
		}
	})
}

// awaitRequests waits until n more requests were answered.
func (x *tenant) awaitRequests(n int64) {
	x.t.Helper()
	want := x.accepted.Load() + x.denied.Load() + n
	cluster.Await(x.t, "the tenant's requests", func(context.Context) error {
		if got := x.accepted.Load() + x.denied.Load(); got < want {
			return fmt.Errorf("got %d, want %d", got, want)
		}
		return nil
	})
}

// stable are the versions of the tenant's objects that the tenant itself leaves alone.
func (x *tenant) stable() string {
	x.t.Helper()
	list, err := x.admin.Resource(serviceAccounts).Namespace("tenant").List(x.t.Context(), metav1.ListOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	var out strings.Builder
	for _, obj := range list.Items {
		if strings.HasPrefix(obj.GetName(), "stable-") {
			fmt.Fprintln(&out, obj.GetName(), obj.GetUID(), obj.GetResourceVersion())
		}
	}
	return out.String()
}

// tenantBundle writes a bundle whose release raises M.
func tenantBundle(t *testing.T, release string) string {
	t.Helper()
	f := bundleDir{t: t, dir: t.TempDir()}
	f.write(map[string]string{
		"bundle.yaml": fmt.Sprintf("apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: tenants}\nrelease: %[1]s\nminReconcilerRelease: %[1]s\n", release),
		"a.yaml":      manifest("ServiceAccount", "platform", "automountServiceAccountToken: false"),
		"b.yaml":      manifest("ConfigMap", "platform", fmt.Sprintf("data: {release: %q}", release)),
	})
	return f.dir
}

// upgradeCost is what an upgrade did beside its work.
type upgradeCost struct {
	statusWrites int64
	logLines     int
	contentEpoch int64
}

// upgradeBeside upgrades two nodes, one after the other. prepare runs while the
// first release is in place.
func upgradeBeside(t *testing.T, prepare func(*tenant), check func(leader *cluster.Sidecar, x *tenant)) upgradeCost {
	t.Helper()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	x := newTenant(t, api)
	a := startSidecar(t, c, cluster.SidecarConfig{NodeID: "a", Kubeconfig: api.Kubeconfig(), Bundle: tenantBundle(t, "1.0.0")})
	statusContains(t, a)("the objects to be watched", `"watching":true`)
	x.learn()
	prepare(x)
	before := x.stable()

	b := startSidecar(t, c, cluster.SidecarConfig{NodeID: "b", Kubeconfig: api.Kubeconfig(), Bundle: tenantBundle(t, "1.1.0")})
	cluster.Await(t, "the upgraded node to be ready", b.Readyz)
	cluster.Await(t, "the other node to be ready", a.Readyz)
	statusContains(t, b)("the objects to be watched again", `"watching":true`)
	check(b, x)
	if err := errors.Join(a.Readyz(t.Context()), b.Readyz(t.Context())); err != nil {
		t.Errorf("after the upgrade: %v", err)
	}
	if after := x.stable(); after != before {
		t.Errorf("the tenant's objects were changed: got\n%s, want\n%s", after, before)
	}
	return costOf(t, c, a, b)
}

func costOf(t *testing.T, c *cluster.Cluster, sidecars ...*cluster.Sidecar) (out upgradeCost) {
	t.Helper()
	status, err := c.Etcd.Client(t).Get(t.Context(), statusKey)
	if err != nil || len(status.Kvs) != 1 {
		t.Fatalf("got %v, %v, want the status", status, err)
	}
	out.statusWrites = status.Kvs[0].Version
	for _, s := range sidecars {
		log, err := os.ReadFile(s.LogFile())
		if err != nil {
			t.Fatal(err)
		}
		out.logLines += strings.Count(string(log), "\n")
	}
	_, body, err := sidecars[0].Get(t.Context(), "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(strings.Join(strings.Fields(body), ""), `"contentEpoch":`)
	number, _, _ := strings.Cut(rest, ",")
	if out.contentEpoch, err = strconv.ParseInt(number, 10, 64); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTenant upgrades while a tenant creates, patches and deletes objects with all
// that Lockstep writes on its own, 50 a second. The upgrade is what it is without.
func TestTenant(t *testing.T) {
	calm := upgradeBeside(t, func(*tenant) {}, func(*cluster.Sidecar, *tenant) {})
	if calm.contentEpoch != 2 {
		t.Fatalf("got %+v without a tenant, want content epoch 2", calm)
	}
	want := func(t *testing.T, got upgradeCost) {
		t.Helper()
		if got.statusWrites != calm.statusWrites || got.contentEpoch != calm.contentEpoch || got.logLines >= calm.logLines+10 {
			t.Errorf("got %+v, without a tenant %+v", got, calm)
		}
	}
	t.Run("the fence refuses all of it", func(t *testing.T) {
		want(t, upgradeBeside(t, func(x *tenant) {
			x.start()
			x.awaitRequests(100)
		}, func(leader *cluster.Sidecar, x *tenant) {
			x.awaitRequests(250)
			if x.accepted.Load() > 0 {
				t.Errorf("%d requests of the tenant were accepted", x.accepted.Load())
			}
			statusContains(t, leader)("no strangers", `"strangers":[],"totalStrangers":0`)
		}))
	})
	t.Run("the fence lets it pass", func(t *testing.T) {
		want(t, upgradeBeside(t, func(x *tenant) {
			x.passFence()
			for i, epoch := range epochs {
				if err := x.create(t.Context(), fmt.Sprintf("stable-%d", i+1), epoch, nil); err != nil {
					t.Fatal(err)
				}
			}
			x.start()
			x.awaitRequests(100)
		}, func(leader *cluster.Sidecar, x *tenant) {
			x.awaitRequests(250)
			if x.accepted.Load() < 250 {
				t.Errorf("only %d requests of the tenant were accepted", x.accepted.Load())
			}
			statusContains(t, leader)("the strangers", `"object":"ServiceAccount\"tenant/stable-`)
		}))
	})
}
