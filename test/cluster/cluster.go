// Package cluster starts the real parts of a control plane on loopback, for
// tests and for the local launchers: an etcd, kube-apiservers that share it,
// and sidecars. Nothing in it is faked, and nothing needs root, a container or
// another machine. It is for tests only: nothing that ships imports it.
//
// A test that needs a Kubernetes API and no more:
//
//	func TestApply(t *testing.T) {
//		api := cluster.NewAPIServer(t) // with an etcd of its own; both end with the test
//		client, err := dynamic.NewForConfig(api.Config())
//		...
//		api.Kubeconfig() // the path of a kubeconfig, for what wants one
//		api.Cluster.Etcd // the etcd beneath, at api.Cluster.Etcd.Endpoints()
//	}
//
// A start takes some seconds; subtests can share one. Where several tests of a
// package are to share one, see Shared.
//
// A test that needs more builds a Cluster:
//
//	c := cluster.NewForTest(t)
//	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "a"})
//	sidecar, err := c.StartSidecar(cluster.SidecarConfig{NodeID: "a", Kubeconfig: api.Kubeconfig(), Bundle: dir})
//	status, err := sidecar.Status(ctx)
//
// The binaries stand in a folder that the environment variable
// LOCKSTEP_E2E_ASSETS names; `make test` builds them and sets it. Without it,
// tests are skipped, and say so.
//
// Every Start returns when the part answers, or with an error that shows the
// end of its log. Everything that was started ends with Close, in reverse
// order, and on Linux also when this process dies. Logs are in Config.LogDir;
// in a test, `go test -artifacts` keeps them.
package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// Config says where a cluster's parts live.
type Config struct {
	Assets string // folder of the binaries kube-apiserver, sidecar and kubelet-probe; needed
	Dir    string // folder for data, keys and kubeconfigs; needed
	LogDir string // folder for logs; empty: Dir

	// Etcd says which etcd to start. An empty Dir becomes a folder in Dir above.
	Etcd etcdtest.Config

	// Members is how many etcd members to start instead, each a process of its
	// own that a test may pause or kill. Zero: the one of Etcd, in this process.
	Members int
	// MemberBinary is the program test/cluster/etcdmember; BuildMember makes it.
	// Needed with Members.
	MemberBinary string
}

// Attach returns a cluster that starts nothing by itself: its sidecars run
// against an etcd and an API that are there already. It has no Etcd and cannot
// start a kube-apiserver.
func Attach(cfg Config) (*Cluster, error) {
	if err := prepare(&cfg); err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	return &Cluster{cfg: cfg}, nil
}

// Cluster is one etcd, one certificate authority and one service account key,
// which all its kube-apiservers share, as those of one control plane do. Its
// methods may be called from many goroutines.
type Cluster struct {
	Etcd    *etcdtest.Server // nil where there are Members
	Members []*Member

	cfg Config
	pki pki

	mu     sync.Mutex // mu guards closes
	closes []func() error
}

// New starts the etcd and makes the keys.
func New(cfg Config) (*Cluster, error) {
	if err := prepare(&cfg); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	keys, err := newPKI(filepath.Join(cfg.Dir, "pki"))
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &Cluster{cfg: cfg, pki: keys}
	if cfg.Members > 0 {
		if err := c.startMembers(cfg.Members); err != nil {
			return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Close())
		}
		return c, nil
	}
	if c.Etcd, err = etcdtest.Start(cfg.Etcd); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c.onClose(c.Etcd.Close)
	return c, nil
}

// Endpoints returns what a client of the cluster's etcd is to be configured
// with; nothing where it has none.
func (c *Cluster) Endpoints() []string {
	if c.Etcd != nil {
		return c.Etcd.Endpoints()
	}
	var out []string
	for _, m := range c.Members {
		out = append(out, "http://"+m.Addr())
	}
	return out
}

func prepare(cfg *Config) error {
	if cfg.Assets == "" || cfg.Dir == "" {
		return errors.New("Config.Assets and Config.Dir are needed")
	}
	if cfg.Members > 0 && cfg.MemberBinary == "" {
		return errors.New("Config.Members needs Config.MemberBinary")
	}
	if cfg.LogDir == "" {
		cfg.LogDir = cfg.Dir
	}
	if cfg.Etcd.Dir == "" {
		cfg.Etcd.Dir = filepath.Join(cfg.Dir, "etcd")
	}
	if cfg.Etcd.LogFile == "" {
		cfg.Etcd.LogFile = filepath.Join(cfg.LogDir, "etcd.log")
	}
	for _, dir := range []string{cfg.Dir, cfg.LogDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// Close stops all that the cluster started and that still runs, the newest
// first, and returns what went wrong.
func (c *Cluster) Close() error {
	c.mu.Lock()
	closes := c.closes
	c.closes = nil
	c.mu.Unlock()

	var errs []error
	for _, stop := range slices.Backward(closes) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

func (c *Cluster) onClose(f func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closes = append(c.closes, f)
}

// start starts a binary of the assets as a child that Close stops.
func (c *Cluster) start(name, binary string, args, env []string) (*Process, error) {
	p, err := c.startProcess(processConfig{name: name, path: filepath.Join(c.cfg.Assets, binary), args: args, env: env})
	if err != nil {
		return nil, err
	}
	c.onClose(p.Stop)
	return p, nil
}

// startProcess starts a child that whoever calls has to stop.
func (c *Cluster) startProcess(cfg processConfig) (*Process, error) {
	cfg.log = filepath.Join(c.cfg.LogDir, cfg.name+".log")
	return startProcess(cfg)
}

// WriteLogs writes the end of each log to w, for a test that failed.
func (c *Cluster) WriteLogs(w io.Writer) error {
	logs, err := filepath.Glob(filepath.Join(c.cfg.LogDir, "*.log"))
	if err != nil {
		return fmt.Errorf("list logs: %w", err)
	}
	var errs []error
	for _, log := range logs {
		_, err := fmt.Fprintf(w, "=== %s ends:\n%s\n", filepath.Base(log), tail(log))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// FreeAddr returns a host:port on loopback on which nobody listens, for a part
// that has to keep its address when it is started again.
func FreeAddr() (string, error) { return etcdtest.FreeAddr() }
