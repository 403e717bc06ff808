package member_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// limit is far above every limit that is tested, so that a slow machine fails no test.
const limit = time.Minute

// rig is a cluster's authority, and nodes of it on loopback.
type rig struct {
	ca *pki.CA
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	return &rig{ca: ca}
}

// node is one node with its directory.
type node struct {
	name, dir string
	spec      member.Spec
	command   []string
	prepare   func() error
}

const loopback = "127.0.0.1"

// node makes a node with keys and free ports. Its Spec creates a cluster of its own.
func (r *rig) node(t *testing.T, name string) *node {
	t.Helper()
	dir := t.TempDir()
	if err := pki.WriteCA(dir, r.ca); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(dir, r.ca, name, loopback); err != nil {
		t.Fatal(err)
	}
	var urls [2]string
	for i := range urls {
		addr, err := etcdtest.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		urls[i] = "https://" + addr
	}
	return &node{name: name, dir: dir, command: []string{os.Args[0], childCommand}, spec: member.Spec{
		Dir: filepath.Join(dir, "etcd"), Name: name, PeerURL: urls[0], ClientURL: urls[1],
		InitialCluster: name + "=" + urls[0], Token: "token-" + name,
		CAFile: filepath.Join(dir, pki.CACertFile), CertFile: filepath.Join(dir, pki.NodeCertFile), KeyFile: filepath.Join(dir, pki.NodeKeyFile),
		Heartbeat: 10 * time.Millisecond, Election: 100 * time.Millisecond,
	}}
}

// process is a supervisor that runs.
type process struct {
	*member.Supervisor
	measures *event.Value[member.Measures]
	node     *node
	stop     func() error // ends it, and returns the error of Run
	done     chan struct{}
	err      error // of Run; read after done
}

// start starts a supervisor that ends with the test.
func (n *node) start(t *testing.T) *process {
	t.Helper()
	log := slog.New(slog.NewTextHandler(writer{t, n.name}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	measures := event.New(member.Measures{})
	s := member.New(member.Config{Command: n.command, Spec: n.spec, Prepare: n.prepare, Log: log, Measures: measures})
	ctx, cancel := context.WithCancel(t.Context())
	r := &process{Supervisor: s, measures: measures, node: n, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = s.Run(ctx)
	}()
	r.stop = func() error {
		cancel()
		<-r.done
		return r.err
	}
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// writer logs to the test.
type writer struct {
	t    *testing.T
	name string
}

func (w writer) Write(text []byte) (int, error) {
	w.t.Log(w.name + ": " + strings.TrimSpace(string(text)))
	return len(text), nil
}

// await returns the first state of which ok holds.
func (r *process) await(t *testing.T, what string, ok func(member.State) bool) member.State {
	t.Helper()
	timeout := time.After(limit)
	for {
		now, changed := r.State().Load()
		if ok(now) {
			return now
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("not in time: %s; state %+v", what, now)
		}
	}
}

func (r *process) awaitReady(t *testing.T) member.State {
	t.Helper()
	return r.await(t, r.node.name+" is ready", func(s member.State) bool { return s.Ready })
}

// client returns a client of a node.
func client(t *testing.T, n *node) *clientv3.Client {
	t.Helper()
	cfg, err := pki.ClientTLS(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{n.spec.ClientURL}, TLS: cfg, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Close reports the end of the client's context, which is intended.
		_ = c.Close()
	})
	return c
}

// put writes a key, within a limit.
func put(t *testing.T, c *clientv3.Client, key string) error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if _, err := c.Put(ctx, key, "value"); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// until polls cond, and fails the test if it does not become true.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}
