package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var ephemeralKeys = keyspace.Under("/lockstep/")

// pod is a sidecar whose node ID never returns. A proxy is its kube-apiserver, which
// counts as stopped when the proxy is closed. Another one is its way to etcd.
type pod struct {
	*cluster.Sidecar
	api, etcd *etcdtest.Proxy
}

// pods are the pods of one hosted control plane.
type pods struct {
	*testing.T
	server *cluster.APIServer
	raw    *clientv3.Client
	last   int // number of the newest one
	seen   *podHistory
	killed []string
	left   []*pod // gracefully
}

// expireAfter is D of the pods.
const expireAfter = 13 * time.Second

// TestEphemeralNodes replaces twenty pods one after another, four in each release: some
// stop gracefully, some are killed. At the end one of the live ones is cut off from etcd
// until its record is deleted. No upgrade waits for a pod that is dead for long. At each
// moment there are only records of live pods, and of pods that died within D. At no
// revision of etcd is a gate open that the leader does not wait for.
func TestEphemeralNodes(t *testing.T) {
	t.Parallel()
	c := cluster.NewTracingForTest(t, 0, "kube-apiserver", "sidecar")
	server, err := c.StartAPIServer(cluster.APIServerConfig{Name: "shared"})
	if err != nil {
		t.Fatal(err)
	}
	p := &pods{T: t, server: server, raw: c.Etcd.Client(t)}
	p.seen = observePods(t, p.raw)
	var live []*pod
	for range 4 {
		live = append(live, p.start(p.bundle("1.0.0")))
	}
	p.awaitDone(live, "1.0.0")
	releases := []string{"1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0"}
	for wave, release := range releases {
		bundle := p.bundle(release)
		for i, old := range live {
			live[i] = p.start(bundle)
			p.end(old, (wave+i)%2 == 0)
		}
		if wave == 0 {
			p.awaitDone(live, release)
		}
	}
	last := releases[len(releases)-1]
	p.awaitDone(live, last)
	if len(p.killed)+len(p.left) != 20 || len(p.killed) < 8 || len(p.left) < 8 {
		t.Errorf("%d pods were killed, and %d stopped", len(p.killed), len(p.left))
	}

	cutOff, others := live[3], live[:3]
	cutOff.etcd.Cut(etcdtest.Blackhole)
	p.seen.ends(cutOff.NodeID)
	cluster.Await(t, "only the live pods to have records", p.onlyRecordsOf(others))
	if code, body, err := cutOff.Get(t.Context(), "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, string(protocol.Fenced)) {
		t.Errorf("the record of %s is deleted, and /readyz answers %d %q, %v", cutOff.NodeID, code, body, err)
	}
	p.awaitDone(others, last)
	p.seen.returns(cutOff.NodeID)
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
	p.checkDeletions()
}

// bundle returns the directory with the bundle of a release.
func (p *pods) bundle(release string) string {
	p.Helper()
	f := bundleDir{t: p.T, dir: p.TempDir()}
	f.write(map[string]string{
		"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: pods}\nrelease: " + release + "\nminApiserverRelease: " + release + "\n",
		"a.yaml":      manifest("ConfigMap", "platform", "data: {release: "+release+"}"),
	})
	return f.dir
}

// start starts a pod, and returns when it is ready.
func (p *pods) start(bundle string) *pod {
	p.Helper()
	p.last++
	x := p.startOne(fmt.Sprintf("pod-%d", p.last), bundle)
	cluster.Await(p.T, x.NodeID+" to be ready", x.Readyz)
	return x
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
	p.seen.returns(id)
	x.Sidecar = startSidecar(p.T, p.server.Cluster, cluster.SidecarConfig{
		NodeID: id, Kubeconfig: kubeconfig, Bundle: bundle, EtcdServers: []string{"http://" + x.etcd.Addr()}, LeaseTTL: podLease,
		Args: []string{"--ephemeral", "--expire-dead-nodes=" + expireAfter.String()},
	})
	p.Cleanup(x.api.Close) // before the sidecar is stopped, which waits for it
	return x
}

// end ends a pod: gracefully, or with kill -9.
func (p *pods) end(x *pod, gracefully bool) {
	p.Helper()
	var err error
	if gracefully {
		p.left = append(p.left, x)
		err = x.leave(p.Context())
	} else {
		p.killed = append(p.killed, x.NodeID)
		x.api.Close()
		err = x.Kill()
	}
	p.seen.ends(x.NodeID)
	if err != nil {
		p.Fatal(err)
	}
}

// leave ends a pod as a kubelet does: the sidecar and its kube-apiserver at the same
// time, and the latter stops after the gate closed.
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

// onlyRecordsOf reports whether there is one record for each of the pods, and no other.
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

// checkDeletions checks which transaction deleted each record.
func (p *pods) checkDeletions() {
	p.Helper()
	now, err := p.raw.Get(p.Context(), ephemeralKeys.Status())
	if err != nil {
		p.Fatal(err)
	}
	deleted := p.seen.close(now.Header.Revision)
	expired := 0
	for _, x := range p.left {
		record, presence := deletedAt(deleted, x.NodeID)
		switch {
		case record != 0 && record == presence:
		case presence != 0 && record > presence && x.lostPresence(p.T):
			expired++
		default:
			p.Errorf("%s left: its record was deleted at revision %d, its presence at %d, want both at one", x.NodeID, record, presence)
		}
	}
	if expired > len(p.left)/2 {
		p.Errorf("%d of %d pods that left had lost their presence before", expired, len(p.left))
	}
	for _, id := range p.killed {
		if record, presence := deletedAt(deleted, id); presence == 0 || record <= presence {
			p.Errorf("%s was killed: its record was deleted at revision %d, its presence at %d, want the record later", id, record, presence)
		}
	}
}

// lostPresence reports whether a pod said at its end that its presence had expired: a busy machine may not
// extend the short lease in time. Then its record waits until a leader deletes it.
func (x *pod) lostPresence(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile(x.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), `reason="the presence is not in etcd"`)
}

func deletedAt(deleted map[string]int64, id string) (record, presence int64) {
	return deleted[ephemeralKeys.Node(protocol.NodeID(id))], deleted[ephemeralKeys.Presence(protocol.NodeID(id))]
}
