package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// restored is a control plane of two nodes. A snapshot of Lockstep's etcd was made while
// they were of release 1.0.0. They are of 1.1.0 now, and its objects need that.
type restored struct {
	*testing.T
	c        *cluster.Cluster
	apiAddr  string
	api      *cluster.APIServer
	etcd     *etcdtest.Server // Lockstep's
	client   *clientv3.Client
	snapshot etcdtest.Restoration
	bundles  map[string]string // by release
	nodes    map[string]*cluster.Sidecar
}

var (
	oneZero = protocol.Release{Major: 1}
	oneOne  = protocol.Release{Major: 1, Minor: 1}
)

// newRestored prepares one. own: Lockstep uses an etcd of its own.
func newRestored(t *testing.T, bump int64, own bool) *restored {
	t.Helper()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar", "etcdutl")
	r := &restored{T: t, c: c, etcd: c.Etcd, bundles: map[string]string{}, nodes: map[string]*cluster.Sidecar{}}
	var err error
	if r.apiAddr, err = cluster.FreeAddr(); err != nil {
		t.Fatal(err)
	}
	r.startAPI()
	if own {
		if r.etcd, err = etcdtest.Start(etcdtest.Config{Dir: filepath.Join(t.TempDir(), "etcd")}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, s := range r.nodes { // they need the etcd to stop
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			}
			if err := r.etcd.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	r.client = r.etcd.Client(t)
	for _, release := range []string{"1.0.0", "1.1.0"} {
		f := bundleDir{t: t, dir: t.TempDir()}
		f.write(map[string]string{
			"bundle.yaml": fmt.Sprintf("apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: restored}\nrelease: %[1]s\nminApiserverRelease: %[1]s\n", release),
			"a.yaml":      manifest("ConfigMap", "platform", fmt.Sprintf("data: {release: %q}", release)),
		})
		r.bundles[release] = f.dir
	}
	r.start("a", "1.0.0")
	r.start("b", "1.0.0")
	r.awaitRelease(oneZero)
	r.snapshot = etcdtest.Restoration{Etcdutl: etcdtest.Etcdutl(t), File: filepath.Join(t.TempDir(), "snapshot"), Bump: bump}
	if err := r.etcd.Save(t.Context(), r.snapshot.File); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"a", "b"} {
		r.stop(node)
		r.start(node, "1.1.0")
	}
	r.awaitRelease(oneOne)
	return r
}

func (r *restored) startAPI() {
	r.Helper()
	var err error
	if r.api, err = r.c.StartAPIServer(cluster.APIServerConfig{Name: "one", Addr: r.apiAddr}); err != nil {
		r.Fatal(err)
	}
}

func (r *restored) start(node, release string) {
	r.Helper()
	none := time.Duration(0)
	s, err := r.c.StartSidecar(cluster.SidecarConfig{
		NodeID: node, Kubeconfig: r.api.Kubeconfig(), Bundle: r.bundles[release], EtcdServers: r.etcd.Endpoints(),
		LeaseTTL: 3 * time.Second, ShutdownDelay: &none,
	})
	if err != nil {
		r.Fatal(err)
	}
	r.nodes[node] = s
}

func (r *restored) stop(node string) {
	r.Helper()
	if err := r.nodes[node].Stop(); err != nil {
		r.Fatal(err)
	}
}

func (r *restored) restore() {
	r.Helper()
	if err := r.etcd.Restore(r.Context(), r.snapshot); err != nil {
		r.Fatal(err)
	}
}

// awaitRelease waits until a release is in place on all nodes: each record, each gate,
// the status, written by a leader whose term goes on, and the object.
func (r *restored) awaitRelease(want protocol.Release) {
	r.Helper()
	cluster.Await(r.T, "release "+want.String()+" to be in place", func(ctx context.Context) error {
		errs := []error{r.wantStore(ctx, want), r.wantObject(ctx, want)}
		for _, node := range r.nodes {
			errs = append(errs, node.Readyz(ctx))
		}
		return errors.Join(errs...)
	})
}

func (r *restored) wantStore(ctx context.Context, want protocol.Release) error {
	keys := keyspace.Under("/lockstep/")
	resp, err := r.client.Txn(ctx).Then(
		clientv3.OpGet(keys.Nodes(), clientv3.WithPrefix()), clientv3.OpGet(keys.Presences(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.Status()), clientv3.OpGet(keys.Leaders(), clientv3.WithPrefix()),
	).Commit()
	if err != nil {
		return err
	}
	for _, record := range fleet.Decode(keys, etcd.NewListing(resp, 0), etcd.NewListing(resp, 1)).Records {
		if record.Node.Version.Release != want || !record.Alive || !record.Presence.Ready {
			return fmt.Errorf("the record of %s: %+v", record.ID, *record)
		}
	}
	stored, candidates := etcd.NewListing(resp, 2).KVs, etcd.NewListing(resp, 3).KVs
	if len(stored) != 1 || len(candidates) != len(r.nodes) {
		return fmt.Errorf("%d statuses, and %d candidates of %d nodes", len(stored), len(candidates), len(r.nodes))
	}
	first := candidates[0]
	for _, c := range candidates {
		if c.CreateRevision < first.CreateRevision {
			first = c
		}
	}
	s := status.Decode(stored[0]).Status
	if s.State != protocol.Done || s.Version.Release != want || s.MinCompatible != want || s.Epoch != first.CreateRevision || string(s.Leader) != string(first.Value) {
		return fmt.Errorf("the status %s, and the leader %s of epoch %d", s, first.Value, first.CreateRevision)
	}
	return nil
}

func (r *restored) wantObject(ctx context.Context, want protocol.Release) error {
	client, err := dynamic.NewForConfig(r.api.Config())
	if err != nil {
		return err
	}
	obj, err := client.Resource(configMaps).Namespace("default").Get(ctx, "platform", metav1.GetOptions{})
	if err == nil && fmt.Sprint(obj.Object["data"]) != "map[release:"+want.String()+"]" {
		err = fmt.Errorf("the object has %v, want %s", obj.Object["data"], want)
	}
	return err
}

// TestRestoredWhileStopped restores the etcd of Lockstep and of the API while all sidecars
// are stopped: one gracefully, one by a kill. The restored records, status, objects and
// leader's key are of the release before.
func TestRestoredWhileStopped(t *testing.T) {
	t.Parallel()
	for name, bump := range map[string]int64{"the revision goes back": 0, "the revision is raised": 1_000_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRestored(t, bump, false)
			r.stop("a")
			if err := errors.Join(r.nodes["b"].Kill(), r.api.Kill()); err != nil {
				t.Fatal(err)
			}
			r.restore()
			old, err := r.client.Get(t.Context(), statusKey)
			if err != nil || len(old.Kvs) != 1 || status.Decode(new(etcd.NewKV(old.Kvs[0]))).Status.Version.Release != oneZero {
				t.Fatalf("got %v, %v, want the status of the release before", old, err)
			}
			r.startAPI()
			r.start("a", "1.1.0")
			r.start("b", "1.1.0")
			r.awaitRelease(oneOne)
		})
	}
}

// TestRestoredAlone restores Lockstep's etcd, and not the API's: the status is older than
// the objects.
func TestRestoredAlone(t *testing.T) {
	t.Parallel()
	for name, bump := range map[string]int64{"the revision goes back": 0, "the revision is raised": 1_000_000} {
		// All nodes are of the release of the objects, so no gate can be wrong.
		t.Run("sidecars run, "+name, func(t *testing.T) {
			t.Parallel()
			r := newRestored(t, bump, true)
			r.restore()
			r.awaitRelease(oneOne)
		})
	}
	// The steps in docs/operations.md#restore-etcd. A status that does not cover the
	// objects is never there when a sidecar runs.
	t.Run("with the status deleted", func(t *testing.T) {
		t.Parallel()
		r := newRestored(t, 0, true)
		r.stop("a")
		r.stop("b")
		r.restore()
		deleted, err := r.client.Delete(t.Context(), statusKey)
		if err != nil || deleted.Deleted != 1 {
			t.Fatalf("got %v, %v, want the status to be deleted", deleted, err)
		}
		r.start("a", "1.1.0")
		r.start("b", "1.1.0")
		r.awaitRelease(oneOne)
		r.wantMinimumSince(deleted.Header.Revision, oneOne)
	})
}

// wantMinimumSince checks all statuses that were written after a revision.
func (r *restored) wantMinimumSince(revision int64, want protocol.Release) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	now, err := r.client.Get(ctx, statusKey)
	if err != nil {
		r.Fatal(err)
	}
	seen := 0
	for resp := range r.client.Watch(ctx, statusKey, clientv3.WithRev(revision+1)) {
		if err := resp.Err(); err != nil {
			r.Fatal(err)
		}
		for _, ev := range resp.Events {
			v := status.Decode(new(etcd.NewKV(ev.Kv)))
			if v.Kind != protocol.StatusPresent || v.Status.MinCompatible.Less(want) {
				r.Errorf("revision %d: got %s, want a minimum of at least %s", v.Revision, v.Status, want)
			}
			if seen++; ev.Kv.ModRevision >= now.Kvs[0].ModRevision {
				r.Logf("%d statuses", seen)
				return
			}
		}
	}
	r.Fatal("the watch ended")
}
