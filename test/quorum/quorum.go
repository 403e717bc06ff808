// Package quorum runs sidecars with --etcd=embedded as processes, each on a loopback
// address of its own, and ends them in every way: for tests of clusters that the
// sidecars form themselves (docs/clusters.md). It needs Linux, where all of 127.0.0.0/8
// is local.
package quorum

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	manager "github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// addresses counts the loopback addresses that this process gave out. Tests of other
// packages run at the same time, so the process uses a network of its own.
var addresses atomic.Int32

// Rig runs the nodes of one test.
type Rig struct {
	t       testing.TB
	cluster *cluster.Cluster
	nodes   []*Node
	// Kubeconfig is shared by all nodes; at first it names an API that does not answer.
	Kubeconfig string
}

// New returns a rig without nodes. binary is the sidecars' program; empty: the one
// that ships.
func New(t testing.TB, binary string) *Rig {
	t.Helper()
	cfg := cluster.Config{Assets: cluster.Assets(t, "sidecar"), Dir: t.TempDir(), SidecarBinary: binary, LogDir: t.ArtifactDir()}
	c, err := cluster.Attach(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.CloseForTest(t, c) })
	r := &Rig{t: t, cluster: c, Kubeconfig: filepath.Join(cfg.Dir, "kubeconfig")}
	t.Cleanup(r.end)
	const nowhere = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
`
	if err := os.WriteFile(r.Kubeconfig, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// end kills what still runs. Where all nodes stop gracefully at once, the member that leads etcd waits seven seconds for
// one that takes over: TestRestart_wholeCluster does that.
func (r *Rig) end() {
	started := slices.DeleteFunc(r.nodes, func(n *Node) bool { return n.Sidecar == nil })
	if len(started) > 0 {
		KillAll(started...)
	}
}

// Node is one node: its address and its directory stay when its sidecar is started
// again.
type Node struct {
	*cluster.Sidecar // nil before the first start
	ID, Address, Dir string
	Clock            string                // by how much it is wrong, such as -1h; empty: it is right
	Starter          func(*exec.Cmd) error // starts its sidecars; nil: StartCommand of package cluster

	rig *Rig
}

// Node returns a node that does not run yet.
func (r *Rig) Node(id string) *Node {
	r.t.Helper()
	n := addresses.Add(1) % 250 // by then the first ones are free again
	address := fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()>>8&0x7f, os.Getpid()&0xff, 2+n)
	node := &Node{ID: id, Address: address, Dir: filepath.Join(r.t.TempDir(), "data"), rig: r}
	r.nodes = append(r.nodes, node)
	return node
}

// Start starts the node's sidecar, with more flags.
func (n *Node) Start(args ...string) {
	n.rig.t.Helper()
	n.StartWith(nil, args...)
}

// StartWith does the same, with environment variables NAME=value.
func (n *Node) StartWith(env []string, args ...string) {
	n.rig.t.Helper()
	n.shareProgram()
	sidecar, err := n.rig.cluster.LaunchSidecar(cluster.SidecarConfig{
		NodeID: n.ID, Kubeconfig: n.rig.Kubeconfig, Listen: n.Address + ":8086", Env: append(n.clockEnv(), env...), Starter: n.Starter,
		EtcdInArgs: true,
		Args:       append([]string{"--etcd=embedded", "--data-dir=" + n.Dir, "--node-address=" + n.Address, "--insecure-listen"}, args...),
	})
	if err != nil {
		n.rig.t.Fatal(err)
	}
	n.Sidecar = sidecar
}

// clockEnv makes the clock of a program of BuildSteps as wrong as the node's.
func (n *Node) clockEnv() []string {
	if n.Clock == "" {
		return nil
	}
	return []string{"TEST_CLOCK_SHIFT=" + n.Clock}
}

// Refused starts a sidecar that must end by itself with exit code 1, and returns the last
// line of its log.
func (n *Node) Refused(args ...string) string {
	n.rig.t.Helper()
	n.Start(args...)
	cluster.Await(n.rig.t, n.ID+" to end by itself", func(context.Context) error {
		select {
		case <-n.Done():
			return nil
		default:
			return errors.New("it runs; " + n.Ending())
		}
	})
	if code := n.ExitCode(); code != 1 {
		n.rig.t.Fatalf("%s ended with the exit code %d, want 1; %s", n.ID, code, n.Ending())
	}
	return n.LastLine()
}

// LastLine returns the last line of the sidecar's log.
func (n *Node) LastLine() string {
	n.rig.t.Helper()
	text, err := os.ReadFile(n.LogFile())
	if err != nil {
		n.rig.t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}

// Cluster is the part of /status about the way into the cluster.
type Cluster struct {
	State   string
	Since   time.Time
	Error   string
	Members []struct {
		ID, Node, Address        string
		Learner, Leader, Healthy bool
	}
	CARotation struct {
		Phase, Turn, Problem string
		WaitsFor, Lost       []string
	}
	Snapshots struct {
		EverySeconds float64
		Newest       *time.Time
		Problem      string
	}
}

// ClusterStatus returns the cluster's part of /status.
func (n *Node) ClusterStatus(ctx context.Context) (Cluster, error) {
	_, body, err := n.Get(ctx, "/status")
	if err != nil {
		return Cluster{}, err
	}
	var status struct{ Cluster Cluster }
	err = json.Unmarshal([]byte(body), &status)
	return status.Cluster, err
}

// AwaitCluster waits until ok returns nil for the state of the cluster.
func (n *Node) AwaitCluster(what string, ok func(Cluster) error) {
	n.rig.t.Helper()
	cluster.Await(n.rig.t, n.ID+" "+what, func(ctx context.Context) error {
		now, err := n.ClusterStatus(ctx)
		if err != nil {
			return err
		}
		return ok(now)
	})
}

// AwaitRunning waits until the node is in its cluster, and registered there.
func (n *Node) AwaitRunning() {
	n.rig.t.Helper()
	cluster.Await(n.rig.t, n.ID+" to be a member that is registered", func(ctx context.Context) error {
		_, body, err := n.Get(ctx, "/status")
		if err != nil {
			return err
		}
		var now struct {
			cluster.Status

			Cluster Cluster
		}
		if err := json.Unmarshal([]byte(body), &now); err != nil {
			return err
		}
		if c := now.Cluster; c.State != string(manager.Running) || !now.Etcd.Connected || now.Node.RegisteredRevision == 0 {
			return fmt.Errorf("the cluster's state is %s (%s), connected %t, registered at %d", c.State, c.Error, now.Etcd.Connected, now.Node.RegisteredRevision)
		}
		return nil
	})
}

// MemberPID returns the process of the node's etcd member; 0: there is none.
func (n *Node) MemberPID() int {
	pid, err := n.Child()
	if err != nil {
		n.rig.t.Fatal(err)
	}
	return pid
}

// KillAll ends the sidecars, the members and the services of nodes at one moment, as a
// power failure does.
func KillAll(nodes ...*Node) {
	t := nodes[0].rig.t
	t.Helper()
	var pids []int
	for _, n := range nodes {
		if err := n.Signal(syscall.SIGSTOP); err != nil { // it starts no other child meanwhile
			t.Error(err)
		}
		children, err := n.Children()
		if err != nil {
			t.Fatal(err)
		}
		pids = append(append(pids, n.PID()), children...)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
	for _, n := range nodes {
		<-n.Done()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute) // a test that ends kills, too
	defer cancel()
	for _, pid := range pids {
		if err := cluster.Poll(ctx, func(context.Context) error { return cluster.HasEnded(pid) }); err != nil {
			t.Error(err)
		}
	}
}

// Marker returns the member's marker in the node's directory.
func (n *Node) Marker() datadir.Marker {
	n.rig.t.Helper()
	m, err := datadir.Layout(n.Dir).ReadMarker()
	if err != nil {
		n.rig.t.Fatal(err)
	}
	return m
}

// Client returns a client of the node's etcd, through its data directory.
func (n *Node) Client() *etcd.Client {
	n.rig.t.Helper()
	reach, err := manager.Reach(n.Dir, "/lockstep/")
	if err != nil {
		n.rig.t.Fatal(err)
	}
	c, err := etcd.NewClient(reach)
	if err != nil {
		n.rig.t.Fatal(err)
	}
	n.rig.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Put writes a key, until that is acknowledged.
func (n *Node) Put(c *etcd.Client, key, value string) {
	n.rig.t.Helper()
	cluster.Await(n.rig.t, "a write to be acknowledged", func(ctx context.Context) error {
		_, err := c.Txn(ctx, nil, []clientv3.Op{clientv3.OpPut(key, value)}, nil)
		return err
	})
}

// Keys returns the keys below a prefix.
func (n *Node) Keys(c *etcd.Client, prefix string) []string {
	n.rig.t.Helper()
	var out []string
	cluster.Await(n.rig.t, "a read", func(ctx context.Context) error {
		resp, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		out = nil
		for _, kv := range resp.Kvs {
			out = append(out, string(kv.Key))
		}
		return nil
	})
	slices.Sort(out)
	return out
}
