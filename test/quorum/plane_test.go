package quorum

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// plane is a control plane of nodes with a quorum of their own and a real
// kube-apiserver, which uses an etcd of its own.
type plane struct {
	*testing.T
	rig *Rig
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	server := cluster.NewAPIServer(t) // it stops after the sidecars, which watch there
	p := &plane{T: t, rig: New(t, "")}
	p.rig.Kubeconfig = server.Kubeconfig()
	return p
}

// bundle returns the flag with a bundle of a release. Nodes of it are ready with the
// objects of releases down to m, and nodes down to release a are ready with its objects.
func (p *plane) bundle(release, m, a string) string {
	p.Helper()
	dir := p.TempDir()
	for file, text := range map[string]string{
		"bundle.yaml": fmt.Sprintf("apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: test}\nrelease: %s\nminReconcilerRelease: %s\nminApiserverRelease: %s\n",
			release, m, a),
		"object.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: test, namespace: default}\ndata: {release: %s}\n", release),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			p.Fatal(err)
		}
	}
	return "--bundle=" + dir
}

// three starts three voters, with a bundle each.
func (p *plane) three(bundles ...string) (a, b, c *Node) {
	p.Helper()
	a, b, c = p.rig.Node("a"), p.rig.Node("b"), p.rig.Node("c")
	p.start(a, bundles[0])
	a.AwaitRunning()
	args := joinArgs(p.T, a, 2)
	p.start(b, append(args, bundles[1])...)
	p.start(c, append(args, bundles[2])...)
	awaitVoters(a, b, c)
	return a, b, c
}

func (p *plane) start(n *Node, args ...string) {
	p.Helper()
	n.Start(append([]string{"--lease-ttl=3s"}, args...)...)
}

// restart stops a sidecar gracefully and starts it again.
func (p *plane) restart(n *Node, args ...string) {
	p.Helper()
	if err := n.Stop(); err != nil {
		p.Fatal(err)
	}
	p.start(n, args...)
	n.AwaitRunning()
}

// awaitStatus waits until the reconciler status is this one, and returns all that the
// node shows then.
func (p *plane) awaitStatus(n *Node, want string) cluster.Status {
	p.Helper()
	var now cluster.Status
	cluster.Await(p.T, n.ID+" to show "+want, func(ctx context.Context) error {
		var err error
		now, err = n.Status(ctx)
		if err == nil && now.Describe() != want {
			err = fmt.Errorf("it shows %s, blockers %v", now.Describe(), now.Blockers())
		}
		return err
	})
	return now
}

// awaitGate waits until a gate is open, or closed for a reason.
func (p *plane) awaitGate(n *Node, closedFor string) {
	p.Helper()
	cluster.Await(p.T, fmt.Sprintf("the gate of %s (closed for %q)", n.ID, closedFor), func(ctx context.Context) error {
		s, err := n.Status(ctx)
		if err == nil && (s.Ready.Ready != (closedFor == "") || !s.Ready.Ready && s.Ready.Reason != closedFor) {
			err = fmt.Errorf("ready %t, %s: %s", s.Ready.Ready, s.Ready.Reason, s.Ready.Message)
		}
		return err
	})
}

// gates asks /readyz of nodes all the time.
type gates struct {
	t       *testing.T
	stop    context.CancelFunc
	running sync.WaitGroup
	asked   map[*Node]*atomic.Int64
}

// watchGates reports each answer of a gate that differs from want.
func watchGates(t *testing.T, want map[*Node]int) *gates {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	g := &gates{t: t, stop: cancel, asked: map[*Node]*atomic.Int64{}}
	for n, code := range want {
		asked, sidecar := &atomic.Int64{}, n.Sidecar
		g.asked[n] = asked
		g.running.Go(func() {
			for ctx.Err() == nil {
				got, body, err := sidecar.Get(ctx, "/readyz")
				switch {
				case ctx.Err() != nil, err != nil: // a machine under load, or a sidecar that does not listen yet
				case got != code:
					t.Errorf("/readyz of %s answers %d, want %d all the time: %s", sidecar.NodeID, got, code, body)
					return
				default:
					asked.Add(1)
				}
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
	t.Cleanup(g.end)
	return g
}

func (g *gates) end() {
	g.stop()
	g.running.Wait()
}

// awaitAsked waits until each gate was asked that many times more.
func (g *gates) awaitAsked(times int64) {
	g.t.Helper()
	for n, asked := range g.asked {
		until := asked.Load() + times
		cluster.Await(g.t, "answers of "+n.ID, func(context.Context) error {
			if now := asked.Load(); now < until {
				return fmt.Errorf("got %d, want %d", now, until)
			}
			return nil
		})
	}
}

// loads counts them, so that each writes keys of its own.
var loads atomic.Int64

// attemptTime bounds a write that nothing answers: without it, a client waits seven seconds for each.
const attemptTime = 2 * time.Second

// load writes into the etcd of the nodes, and remembers which writes were acknowledged.
type load struct {
	below    string // the prefix of its keys
	stop     context.CancelFunc
	running  sync.WaitGroup
	attempts atomic.Int64

	mu    sync.Mutex // mu guards acked
	acked []string
}

// startLoad starts a writer at each node. It uses the other members where its own does
// not answer, as the sidecars do.
func startLoad(t *testing.T, nodes ...*Node) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{stop: cancel, below: fmt.Sprintf("/test/load-%d/", loads.Add(1))}
	for i, n := range nodes {
		c, endpoints := n.Client(), []string{}
		for j := range nodes {
			endpoints = append(endpoints, nodes[(i+j)%len(nodes)].Marker().ClientURL())
		}
		if err := c.SetEndpoints(endpoints); err != nil {
			t.Fatal(err)
		}
		l.running.Go(func() { l.write(ctx, c, l.below+n.ID+"-") })
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) write(ctx context.Context, c *etcd.Client, prefix string) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("%s%08d", prefix, i)
		attempt, cancel := context.WithTimeout(ctx, attemptTime)
		_, err := c.Txn(attempt, nil, []clientv3.Op{clientv3.OpPut(key, strings.Repeat("x", 200))}, nil)
		cancel()
		l.attempts.Add(1)
		if err == nil {
			l.mu.Lock()
			l.acked = append(l.acked, key)
			l.mu.Unlock()
		}
		pause(ctx, 100*time.Millisecond) // other tests run at the same time
	}
}

func (l *load) end() {
	l.stop()
	l.running.Wait()
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// awaitMore waits until so many more writes were acknowledged.
func (l *load) awaitMore(t *testing.T, n int) {
	t.Helper()
	until := l.count() + n
	cluster.Await(t, fmt.Sprintf("%d writes", n), func(context.Context) error {
		if now := l.count(); now < until {
			return fmt.Errorf("%d of %d were acknowledged", now, until)
		}
		return nil
	})
}

// wantAll requires that the member of a node itself stores each write that was
// acknowledged until now.
func (l *load) wantAll(t *testing.T, n, other *Node) {
	t.Helper()
	l.mu.Lock()
	want := slices.Clone(l.acked)
	l.mu.Unlock()
	awaitCaughtUp(t, n, other)
	has := keysOf(t, n, l.below)
	for _, key := range want {
		if !has[key] {
			t.Errorf("the member of %s does not have %s, which was acknowledged", n.ID, key)
			return
		}
	}
	t.Logf("the member of %s has all %d acknowledged writes", n.ID, len(want))
}

// keysAtOnce is how many keys one request reads: a busy member answers that within the limit of a
// request, and may not answer a request for all of them.
const keysAtOnce = 500

// keysOf returns the keys below a prefix that the member of a node itself stores. None of them
// may be deleted meanwhile.
func keysOf(t *testing.T, n *Node, prefix string) map[string]bool {
	t.Helper()
	out, c := map[string]bool{}, n.Client()
	for from, more := prefix, true; more; {
		cluster.Await(t, "keys from the member of "+n.ID, func(ctx context.Context) error {
			resp, err := c.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(keysAtOnce),
				clientv3.WithKeysOnly(), clientv3.WithSerializable())
			if err != nil {
				return err
			}
			for _, kv := range resp.Kvs {
				out[string(kv.Key)] = true
				from = string(kv.Key) + "\x00"
			}
			more = resp.More
			return nil
		})
	}
	return out
}

// awaitCaughtUp waits until the member of a node applied all that the leader stored when
// this was called.
func awaitCaughtUp(t *testing.T, n, other *Node) {
	t.Helper()
	var leader etcd.MemberStatus
	c := other.Client()
	cluster.Await(t, "the index of "+other.ID, func(ctx context.Context) error {
		var err error
		leader, err = c.MemberStatus(ctx, other.Marker().ClientURL())
		return err
	})
	cluster.Await(t, n.ID+" to catch up", func(ctx context.Context) error {
		now, err := c.MemberStatus(ctx, n.Marker().ClientURL())
		if err == nil && now.Applied < leader.Applied {
			err = fmt.Errorf("it has applied %d, and %s had %d", now.Applied, other.ID, leader.Applied)
		}
		return err
	})
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

const (
	open   = http.StatusOK
	closed = http.StatusServiceUnavailable
)
