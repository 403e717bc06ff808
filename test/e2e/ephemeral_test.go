package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var ephemeralKeys = keyspace.Under("/lockstep/")

// pod is a sidecar whose node ID never returns. A proxy is its kube-apiserver: that
// has stopped when the proxy is closed. Another one is its way to etcd.
type pod struct {
	*cluster.Sidecar
	api, etcd *etcdtest.Proxy
}

// pods are those of one hosted control plane.
type pods struct {
	*testing.T
	server *cluster.APIServer
	raw    *clientv3.Client
	last   int // number of the newest one
	killed []string
	left   []string // gracefully
}

// TestEphemeralNodes replaces twenty pods, a release in each wave: some stop
// gracefully, some are killed. At the end one of the live ones is cut off from etcd
// until its record is deleted. No upgrade waits for a pod that is dead for long, no
// record of one stays, and at no revision of etcd is a gate open that the leader does
// not wait for.
func TestEphemeralNodes(t *testing.T) {
	c := cluster.NewTracingForTest(t, 0, "kube-apiserver", "sidecar")
	server, err := c.StartAPIServer(cluster.APIServerConfig{Name: "shared"})
	if err != nil {
		t.Fatal(err)
	}
	p := &pods{T: t, server: server, raw: c.Etcd.Client(t)}
	live := p.start("1.0.0")
	p.awaitDone(live, "1.0.0")

	next := p.start("1.1.0")
	p.replace(live, func(int) bool { return true })
	p.awaitDone(next, "1.1.0") // no leader has deleted a record yet
	live = next
	for _, release := range []string{"1.2.0", "1.3.0", "1.4.0"} {
		next = p.start(release)
		p.replace(live, func(i int) bool { return i%2 == 0 })
		live = next
	}
	cutOff, others := live[3], live[:3]
	cutOff.etcd.Cut(etcdtest.Blackhole)
	cluster.Await(t, "only the live pods to have records", p.onlyRecordsOf(others))
	if code, body, err := cutOff.Get(t.Context(), "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, string(protocol.Fenced)) {
		t.Errorf("the record of %s is deleted, and /readyz answers %d %q, %v", cutOff.NodeID, code, body, err)
	}
	p.awaitDone(others, "1.4.0")
	cutOff.etcd.Restore()
	cluster.Await(t, "the pod that was cut off to be ready", cutOff.Readyz)
	cluster.Await(t, "the live pods to have records", p.onlyRecordsOf(live))
	cluster.Await(t, "the next upgrade to be allowed", func(ctx context.Context) error {
		s, err := live[0].Status(ctx)
		if err == nil && !s.UpgradeReady {
			err = fmt.Errorf("upgradeReady is false: %+v", s.Fleet.Nodes)
		}
		return err
	})
	p.checkHistory()
}

// start starts the four pods of a wave, and returns when they are ready.
func (p *pods) start(release string) []*pod {
	p.Helper()
	f := bundleDir{t: p.T, dir: p.TempDir()}
	f.write(map[string]string{
		"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: pods}\nrelease: " + release + "\nminApiserverRelease: " + release + "\n",
		"a.yaml":      manifest("ConfigMap", "platform", "data: {release: "+release+"}"),
	})
	var out []*pod
	for range 4 {
		p.last++
		out = append(out, p.startOne(fmt.Sprintf("pod-%d", p.last), f.dir))
	}
	for _, x := range out {
		cluster.Await(p.T, x.NodeID+" to be ready", x.Readyz)
	}
	return out
}

func (p *pods) startOne(id, bundle string) *pod {
	p.Helper()
	x := &pod{
		api:  etcdtest.NewProxy(p.T, strings.TrimPrefix(p.server.URL(), "https://")),
		etcd: etcdtest.NewProxy(p.T, p.server.Cluster.Etcd.Addr()),
	}
	kubeconfig := filepath.Join(p.TempDir(), "kubeconfig")
	if err := p.server.Cluster.WriteKubeconfig(kubeconfig, "https://"+x.api.Addr()); err != nil {
		p.Fatal(err)
	}
	x.Sidecar = startSidecar(p.T, p.server.Cluster, cluster.SidecarConfig{
		NodeID: id, Kubeconfig: kubeconfig, Bundle: bundle, EtcdServers: []string{"http://" + x.etcd.Addr()}, LeaseTTL: 3 * time.Second,
		Args: []string{"--ephemeral", "--expire-dead-nodes=13s"},
	})
	p.Cleanup(x.api.Close) // before the sidecar is stopped, which waits for it
	return x
}

// replace ends pods, all at the same time: gracefully, or with kill -9.
func (p *pods) replace(old []*pod, gracefully func(i int) bool) {
	p.Helper()
	var group sync.WaitGroup
	errs := make([]error, len(old))
	for i, x := range old {
		if gracefully(i) {
			p.left = append(p.left, x.NodeID)
			group.Go(func() { errs[i] = x.leave(p.Context()) })
			continue
		}
		p.killed = append(p.killed, x.NodeID)
		group.Go(func() { x.api.Close(); errs[i] = x.Kill() })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		p.Fatal(err)
	}
}

// leave ends a pod as a kubelet does: the sidecar and its kube-apiserver at the same
// time, and the latter stops when the gate has closed.
func (x *pod) leave(ctx context.Context) error {
	if err := x.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		code, _, err := x.Get(ctx, "/readyz")
		if err == nil && code != http.StatusServiceUnavailable {
			err = fmt.Errorf("/readyz of %s answers %d", x.NodeID, code)
		}
		return err
	})
	x.api.Close()
	if code := x.ExitCode(); code != 0 {
		return errors.Join(err, fmt.Errorf("%s ended with exit code %d", x.NodeID, code))
	}
	return err
}

// awaitDone returns when the upgrade to a release is complete.
func (p *pods) awaitDone(live []*pod, release string) {
	p.Helper()
	cluster.Await(p.T, "DONE "+release, func(ctx context.Context) error {
		s, err := live[0].Status(ctx)
		if err == nil && s.Describe() != fmt.Sprintf("DONE %s min %s", release, release) {
			err = fmt.Errorf("the status is %s, blockers %v", s.Describe(), s.Blockers())
		}
		return err
	})
}

// onlyRecordsOf reports whether the pods have a record each, and no other node has.
func (p *pods) onlyRecordsOf(live []*pod) func(context.Context) error {
	var want []string
	for _, x := range live {
		want = append(want, ephemeralKeys.Node(protocol.NodeID(x.NodeID)))
	}
	slices.Sort(want)
	return func(ctx context.Context) error {
		resp, err := p.raw.Get(ctx, ephemeralKeys.Nodes(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		var got []string
		for _, kv := range resp.Kvs {
			got = append(got, string(kv.Key))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("got %v, want %v", got, want)
		}
		return nil
	}
}

// checkHistory checks each revision of etcd: a gate that is open, as its presence
// reports, has a record, and the status admits it. It also checks which transaction
// deleted each record.
func (p *pods) checkHistory() {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	now, err := p.raw.Get(ctx, ephemeralKeys.Status())
	if err != nil {
		p.Fatal(err)
	}
	kvs, deleted := map[string]etcd.KV{}, map[string]int64{}
	for resp := range p.raw.Watch(ctx, "/lockstep/", clientv3.WithPrefix(), clientv3.WithRev(1)) {
		if err := resp.Err(); err != nil {
			p.Fatal(err)
		}
		for i, ev := range resp.Events {
			at := ev.Kv.ModRevision
			if delete(kvs, string(ev.Kv.Key)); ev.IsCreate() || ev.IsModify() {
				kvs[string(ev.Kv.Key)] = etcd.NewKV(ev.Kv)
			} else {
				deleted[string(ev.Kv.Key)] = at
			}
			if i == len(resp.Events)-1 || resp.Events[i+1].Kv.ModRevision != at {
				p.checkGates(at, kvs)
			}
		}
		if resp.Header.Revision >= now.Header.Revision {
			break
		}
	}
	for _, id := range p.left {
		if record, presence := deletedAt(deleted, id); record == 0 || record != presence {
			p.Errorf("%s left: its record was deleted at revision %d, its presence at %d, want both at one", id, record, presence)
		}
	}
	for _, id := range p.killed {
		if record, presence := deletedAt(deleted, id); presence == 0 || record <= presence {
			p.Errorf("%s was killed: its record was deleted at revision %d, its presence at %d, want the record later", id, record, presence)
		}
	}
}

func deletedAt(deleted map[string]int64, id string) (record, presence int64) {
	return deleted[ephemeralKeys.Node(protocol.NodeID(id))], deleted[ephemeralKeys.Presence(protocol.NodeID(id))]
}

// checkGates checks one revision.
func (p *pods) checkGates(at int64, kvs map[string]etcd.KV) {
	p.Helper()
	var nodes, presences etcd.Listing
	view := status.Decode(nil)
	for _, key := range slices.Sorted(maps.Keys(kvs)) {
		kv := kvs[key]
		switch {
		case strings.HasPrefix(key, ephemeralKeys.Nodes()):
			nodes.KVs = append(nodes.KVs, &kv)
		case strings.HasPrefix(key, ephemeralKeys.Presences()):
			presences.KVs = append(presences.KVs, &kv)
		case key == ephemeralKeys.Status():
			view = status.Decode(&kv)
		}
	}
	for _, kv := range presences.KVs { // a record that is missing becomes one that is corrupt
		id := ephemeralKeys.NodeOf(kv.Key)
		if _, found := kvs[ephemeralKeys.Node(id)]; !found {
			nodes.KVs = append(nodes.KVs, &etcd.KV{Key: ephemeralKeys.Node(id)})
		}
	}
	slices.SortFunc(nodes.KVs, func(a, b *etcd.KV) int { return strings.Compare(a.Key, b.Key) })
	for _, r := range fleet.Decode(ephemeralKeys, nodes, presences).Records {
		switch admits, reason := protocol.Admits(view.Status, r.Node); {
		case !r.Presence.Ready:
		case r.Problem != "":
			p.Errorf("revision %d: the gate of %s is open, and it has no record", at, r.ID)
		case !admits:
			p.Errorf("revision %d: the gate of %s is open, and the status does not admit it (%s)", at, r.ID, reason)
		}
	}
}
