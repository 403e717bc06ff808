package turns_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var keys = keyspace.Under("/lockstep/")

// world is three nodes with one etcd.
type world struct {
	*testing.T
	cluster *cluster.Cluster
	raw     *clientv3.Client
	dir     string
	nodes   []*node
}

// node is one of them.
type node struct {
	id      string
	api     *api
	cfg     cluster.SidecarConfig
	sidecar *cluster.Sidecar
	// services is the directory of its services; empty: it runs none.
	services string
}

// api answers as far as a sidecar asks whether its kube-apiserver is ready.
type api struct {
	*httptest.Server
	mu   sync.Mutex // mu guards down
	down int        // restarts that are under way
}

// restartTakes is how long a kube-apiserver is not ready after the command that restarted it
// returned: longer than a sidecar needs to ask it again.
const restartTakes = 1500 * time.Millisecond

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case r.URL.Path == "/restart":
		a.down++
		time.AfterFunc(restartTakes, func() { a.setDown(-1) })
	case r.URL.Path == "/readyz" && a.down == 0:
	default:
		http.Error(w, "no such thing here", http.StatusServiceUnavailable)
	}
}

// setDown adds a number to the restarts that are under way.
func (a *api) setDown(more int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down += more
}

const bundleText = "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: test}\nrelease: 1.0.0\nminReconcilerRelease: 1.0.0\nminApiserverRelease: 1.0.0\n"

// newWorld starts three nodes that serve. more changes the configuration of each sidecar.
func newWorld(t *testing.T, more func(*node)) *world {
	t.Helper()
	w := &world{T: t, cluster: cluster.NewForTest(t, "sidecar"), dir: t.TempDir()}
	w.raw = w.cluster.Etcd.Client(t)
	w.write("bundle/bundle.yaml", bundleText)
	w.write("bundle/object.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: test, namespace: default}\n")
	// The nodes may serve with these objects: they need not reach an API for that.
	value, err := status.Encode(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Major: 9}}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.raw.Put(t.Context(), keys.Status(), string(value)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"cp-1", "cp-2", "cp-3"} {
		n := &node{id: id, api: &api{}}
		n.api.Server = httptest.NewServer(n.api)
		t.Cleanup(n.api.Close)
		kubeconfig := filepath.Join(w.dir, id+".kubeconfig")
		if err := w.cluster.WriteKubeconfig(kubeconfig, n.api.URL); err != nil {
			t.Fatal(err)
		}
		noDelay := time.Duration(0)
		n.cfg = cluster.SidecarConfig{
			NodeID: id, Kubeconfig: kubeconfig, Bundle: filepath.Join(w.dir, "bundle"), LeaseTTL: 5 * time.Second,
			ShutdownDelay: &noDelay, Args: []string{"--apiserver-readyz", "--leader-yield-after=1h"},
		}
		if n.cfg.Listen, err = etcdtest.FreeAddr(); err != nil {
			t.Fatal(err)
		}
		if more != nil {
			more(n)
		}
		w.nodes = append(w.nodes, n)
		w.start(n)
	}
	for _, n := range w.nodes {
		cluster.Await(t, n.id+" to serve", n.sidecar.Readyz)
	}
	return w
}

func (w *world) start(n *node) {
	w.Helper()
	var err error
	if n.sidecar, err = w.cluster.StartSidecar(n.cfg); err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(name, text string) {
	w.Helper()
	file := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		w.Fatal(err)
	}
}

// job is work on a node.
func (w *world) job(n *node) job {
	j := job{Node: n.id, Log: filepath.Join(w.dir, "log"), Readyz: map[string]string{}}
	for _, other := range w.nodes {
		j.Readyz[other.id] = "http://" + other.cfg.Listen + "/readyz"
	}
	return j
}

// jobUntil is a job that ends when the world has a file of this name.
func (w *world) jobUntil(n *node, file string) job {
	j := w.job(n)
	j.Until = filepath.Join(w.dir, file)
	return j
}

// typed is a command that runs.
type typed struct {
	cmd *exec.Cmd
	out bytes.Buffer // to be read after end
}

// turn types sidecar turn on a node.
func (w *world) turn(n *node, args ...string) *typed {
	w.Helper()
	return w.sidecar(append([]string{"turn", "--server=http://" + n.cfg.Listen}, args...)...)
}

// sidecar types a command that reaches etcd.
func (w *world) sidecar(args ...string) *typed {
	w.Helper()
	return w.typed(append([]string{filepath.Join(cluster.Assets(w, "sidecar"), "sidecar")}, args...))
}

func (w *world) typed(words []string) *typed {
	w.Helper()
	c := &typed{cmd: exec.CommandContext(w.Context(), words[0], words[1:]...)}
	c.cmd.Env = append(os.Environ(), "LOCKSTEP_ETCD_SERVERS="+w.cluster.Endpoints()[0])
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	if err := cluster.StartCommand(c.cmd); err != nil {
		w.Fatal(err)
	}
	return c
}

// work types sidecar turn for a job on a node.
func (w *world) work(n *node, j job, args ...string) *typed {
	w.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		w.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	return w.turn(n, append(append([]string{"--drain=1ms"}, args...), "--", self, workWord, string(text))...)
}

// end waits for the end of a command, and returns its exit code and output.
func (c *typed) end() (code int, out string) {
	_ = c.cmd.Wait() // the code says it
	return c.cmd.ProcessState.ExitCode(), c.out.String()
}

func (w *world) want(c *typed, code int, part string) {
	w.Helper()
	if got, out := c.end(); got != code || !strings.Contains(out, part) {
		w.Errorf("%q: got exit code %d, %s, want %d with %q", c.cmd.Args[1:], got, out, code, part)
	}
}

// awaitPrinted types a command again and again until it prints all parts.
func (w *world) awaitPrinted(args []string, parts ...string) {
	w.Helper()
	cluster.Await(w, fmt.Sprintf("%v to have %q", args, parts), func(context.Context) error {
		_, out := w.sidecar(args...).end()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				return errors.New(out)
			}
		}
		return nil
	})
}

func (w *world) log() (out []line) {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	for row := range strings.Lines(string(text)) {
		var l line
		if err := json.Unmarshal([]byte(row), &l); err != nil {
			w.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// awaitLog waits for a number of lines.
func (w *world) awaitLog(n int) []line {
	w.Helper()
	cluster.Await(w, fmt.Sprintf("%d lines of work", n), func(context.Context) error {
		if got := w.log(); len(got) < n {
			return fmt.Errorf("got %v", got)
		}
		return nil
	})
	return w.log()
}

// wantInTurn checks that work was done by one node after another, while all others served.
func (w *world) wantInTurn(log []line, nodes int) {
	w.Helper()
	if len(log) != 2*nodes {
		w.Fatalf("got %v, want the work of %d nodes", log, nodes)
	}
	for i, l := range log {
		what := []string{began, ended}[i%2]
		if l.What != what || l.PID != log[i-i%2].PID {
			w.Fatalf("line %d: got %+v, want that work has %s, of %v", i, l, what, log)
		}
		for _, n := range w.nodes {
			if open := slices.Contains(l.Open, n.id); open != (n.id != l.Node) {
				w.Errorf("%s on %s: %s serves: %t; %v", l.What, l.Node, n.id, open, log)
			}
		}
	}
}

// followServing checks that at no revision fewer than two nodes serve. stop ends that.
func (w *world) followServing() (stop func()) {
	w.Helper()
	resp, err := w.raw.Get(w.Context(), keys.Presences(), clientv3.WithPrefix())
	if err != nil {
		w.Fatal(err)
	}
	states := map[string]bool{}
	for _, kv := range resp.Kvs {
		states[string(kv.Key)] = w.serves(kv.Value)
	}
	ctx, cancel := context.WithCancel(w.Context())
	var following sync.WaitGroup
	following.Go(func() {
		for resp := range w.raw.Watch(ctx, keys.Presences(), clientv3.WithPrefix(), clientv3.WithRev(resp.Header.Revision+1)) {
			for _, e := range resp.Events {
				states[string(e.Kv.Key)] = e.Type == clientv3.EventTypePut && w.serves(e.Kv.Value)
				n := 0
				for _, is := range states {
					if is {
						n++
					}
				}
				if n < 2 {
					w.Errorf("at revision %d, %d nodes serve: %v", e.Kv.ModRevision, n, states)
				}
			}
		}
	})
	return func() { cancel(); following.Wait() }
}

func (w *world) serves(value []byte) bool {
	var p lockstepv1.Presence
	if err := proto.Unmarshal(value, &p); err != nil {
		w.Error(err)
	}
	return p.GetReady() && !p.GetApiserverDown()
}
