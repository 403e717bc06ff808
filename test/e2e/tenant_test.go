package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const statusKey = "/lockstep/kubernetes/reconciler/status"

// tenantLoad is how long a tenant disturbs an upgrade, at 50 requests a second.
var tenantLoad = flag.Duration("tenant.load", 6*time.Second, "how long TestTenant disturbs an upgrade; `make soak` does it for a minute")

// tenant is a user who may edit one namespace.
type tenant struct {
	*cluster.Tenant
	t *testing.T
}

func newTenant(t *testing.T, api *cluster.APIServer) *tenant {
	t.Helper()
	x, err := cluster.NewTenant(t.Context(), api.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &tenant{x, t}
}

// learn reads the label of the set, and waits until the tenant's rights and the fence
// are in force.
func (x *tenant) learn() {
	x.t.Helper()
	if err := x.Learn(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	cluster.Await(x.t, "the fence to refuse the tenant", x.AwaitFence)
}

// passFence gives the tenant the right that the fence asks for, and waits for it.
func (x *tenant) passFence() {
	x.t.Helper()
	if err := x.PassFence(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	cluster.Await(x.t, "the fence to let the tenant pass", func(ctx context.Context) error {
		return x.Create(ctx, "stable-0", "7", nil)
	})
}

// start starts the work, which ends with the test.
func (x *tenant) start() {
	ctx, cancel := context.WithCancel(x.t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Work(ctx) }()
	x.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			x.t.Error(err)
		}
	})
}

// awaitRequests waits until so many requests were answered as the tenant sends
// within d.
func (x *tenant) awaitRequests(d time.Duration) {
	x.t.Helper()
	// The time that cluster.Await allows is for one step.
	for want := int64(0); want < int64(d/cluster.TenantPause); {
		want = min(want+100, int64(d/cluster.TenantPause))
		cluster.Await(x.t, "the tenant's requests", func(context.Context) error {
			if got := x.Answered(); got < want {
				return fmt.Errorf("got %d, want %d", got, want)
			}
			return nil
		})
	}
}

// stable are the versions of the tenant's objects that the tenant itself leaves alone.
func (x *tenant) stable() string {
	x.t.Helper()
	objects, err := x.Objects(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	var out strings.Builder
	for _, obj := range objects {
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

// upgradeCost is the side effects of an upgrade.
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
	if err := x.LowerEpoch(t.Context(), "1"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot become 1") {
		t.Errorf("got %v, want the fence to keep the content epoch of an object", err)
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

// TestTenant upgrades while a tenant creates, patches and deletes objects, 50 a second,
// from before the upgrade until tenantLoad is over. They carry all labels and annotations
// that Lockstep writes on its own objects. The upgrade writes the status, the log and the
// content epoch as it does without a tenant, and afterwards the fence still works.
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
			x.awaitRequests(2 * time.Second)
		}, func(leader *cluster.Sidecar, x *tenant) {
			x.awaitRequests(*tenantLoad)
			if x.Accepted() > 0 {
				t.Errorf("%d requests of the tenant were accepted", x.Accepted())
			}
			statusContains(t, leader)("no strangers", `"strangers":[],"totalStrangers":0`)
		}))
	})
	t.Run("the fence lets it pass", func(t *testing.T) {
		want(t, upgradeBeside(t, func(x *tenant) {
			x.passFence()
			for i, epoch := range cluster.TenantEpochs {
				if err := x.Create(t.Context(), fmt.Sprintf("stable-%d", i+1), epoch, nil); err != nil {
					t.Fatal(err)
				}
			}
			x.start()
			x.awaitRequests(2 * time.Second)
		}, func(leader *cluster.Sidecar, x *tenant) {
			x.awaitRequests(*tenantLoad)
			if n := x.Answered(); x.Accepted() < n*2/3 {
				t.Errorf("only %d of %d requests of the tenant were accepted", x.Accepted(), n)
			}
			statusContains(t, leader)("the strangers", `"object":"ServiceAccount\"tenant/stable-`)
		}))
	})
}
