// Package cluster starts the real parts of a control plane on loopback, for tests
// and for the local launchers: an etcd, kube-apiservers that share it, and sidecars.
// It fakes nothing, and needs no root, no container and no other machine. It is for
// tests only: nothing that ships imports it.
//
// A test that needs only a Kubernetes API:
//
//	func TestApply(t *testing.T) {
//		api := cluster.NewAPIServer(t) // with its own etcd; both end with the test
//		client, err := dynamic.NewForConfig(api.Config())
//		...
//		api.Kubeconfig() // the path of a kubeconfig
//		api.Cluster.Etcd // its etcd, at api.Cluster.Etcd.Endpoints()
//	}
//
// A start takes some seconds. Subtests can share one; several tests of a package
// share one through Shared.
//
// A test that needs more builds a Cluster:
//
//	c := cluster.NewForTest(t)
//	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "a"})
//	sidecar, err := c.StartSidecar(cluster.SidecarConfig{NodeID: "a", Kubeconfig: api.Kubeconfig(), Bundle: dir})
//	status, err := sidecar.Status(ctx)
//
// The environment variable LOCKSTEP_E2E_ASSETS names the directory of the binaries.
// `make test` builds them and sets it. Without it, tests are skipped and report that.
//
// Every Start returns when the part answers, or with an error that shows the end of
// its log. Close stops all sidecars at once, and then ends everything else that was started, in
// reverse order. On Linux all children also end when this process dies. Logs are in Config.LogDir; in a test,
// `go test -artifacts` keeps them.
package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// Config configures a Cluster.
type Config struct {
	Assets string // directory of the binaries kube-apiserver, sidecar and kubelet-probe; required
	Dir    string // directory for data, keys and kubeconfigs; required
	LogDir string // directory for logs; empty: Dir

	// Etcd configures the etcd. An empty Dir becomes a directory in Dir above.
	Etcd etcdtest.Config

	// Members is how many etcd members to start instead. Each is a process that a
	// test may pause or kill. Zero: one etcd in this process, as Etcd configures it.
	Members int
	// MemberBinary is the path of the program test/cluster/etcdmember. BuildMember
	// builds it. Required with Members.
	MemberBinary string
	// WithoutEtcd starts no etcd: the configuration of each part contains the endpoints.
	WithoutEtcd bool

	// Addresses are those at which kube-apiservers serve, besides loopback.
	Addresses []net.IP

	// SidecarBinary is the path of the sidecars' program; empty: sidecar in Assets.
	SidecarBinary string
	// TraceDir is where sidecars write their traces, if SidecarBinary was built by
	// BuildTracing.
	TraceDir string
}

// Attach returns a cluster without an etcd. Its sidecars use an etcd and an API that
// exist already. It cannot start a kube-apiserver.
func Attach(cfg Config) (*Cluster, error) {
	if err := prepare(&cfg); err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	return &Cluster{cfg: cfg}, nil
}

// Cluster runs one etcd, and holds one certificate authority and one service account
// key. All its kube-apiservers share them, as in one control plane. Its methods may be
// called from many goroutines.
type Cluster struct {
	Etcd    *etcdtest.Server // nil if the cluster has Members
	Members []*Member

	cfg    Config
	pki    pki
	booted atomic.Bool // its first kube-apiserver was started

	mu       sync.Mutex // mu guards the fields below
	closes   []func() error
	sidecars []*Process
}

// New starts the etcd and creates the keys.
func New(cfg Config) (*Cluster, error) {
	if err := prepare(&cfg); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	keys, err := newPKI(filepath.Join(cfg.Dir, "pki"), cfg.Addresses)
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &Cluster{cfg: cfg, pki: keys}
	if cfg.WithoutEtcd {
		return c, nil
	}
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

// Endpoints returns the endpoints of the cluster's etcd; none if it has no etcd.
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
		return errors.New("Config.Assets and Config.Dir are required")
	}
	if cfg.Members > 0 && cfg.MemberBinary == "" {
		return errors.New("Config.Members requires Config.MemberBinary")
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
	for _, dir := range []string{cfg.Dir, cfg.LogDir, cmp.Or(cfg.TraceDir, cfg.LogDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// Close stops all sidecars at once: of members that stop one after another, the last ones would wait for a majority.
// Then it ends everything else that the cluster started, the newest first: kube-apiservers are killed, since their graceful
// stop takes seconds and is not what is tested. It returns the errors.
func (c *Cluster) Close() error {
	c.mu.Lock()
	closes, sidecars := c.closes, c.sidecars
	c.closes, c.sidecars = nil, nil
	c.mu.Unlock()

	errs := make([]error, len(sidecars))
	var stopping sync.WaitGroup
	for i, s := range sidecars {
		stopping.Go(func() { errs[i] = s.Stop() })
	}
	stopping.Wait()
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

// start starts a binary of Config.Assets. Close ends it.
func (c *Cluster) start(binary string, cfg processConfig) (*Process, error) {
	cfg.path = filepath.Join(c.cfg.Assets, binary)
	if binary == "sidecar" {
		cfg.path, cfg.env = c.sidecarProgram(cfg.path, cfg.env)
	}
	p, err := c.startProcess(cfg)
	if err != nil {
		return nil, err
	}
	if binary != "sidecar" {
		c.onClose(p.Kill)
		return p, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sidecars = append(c.sidecars, p)
	return p, nil
}

// startProcess starts a child. The caller must stop it.
func (c *Cluster) startProcess(cfg processConfig) (*Process, error) {
	cfg.log = filepath.Join(c.cfg.LogDir, cfg.name+".log")
	return startProcess(cfg)
}

// WriteLogs writes the end of each log to w. It is for tests that failed.
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

// FreeAddr returns a host:port on loopback that is not in use. It is for a part that
// must keep its address when it is started again.
func FreeAddr() (string, error) { return etcdtest.FreeAddr() }
