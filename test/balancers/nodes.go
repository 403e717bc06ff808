package balancers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// The ports of docs/load-balancers.md.
const (
	apiPort     = "6443"
	sidecarPort = "8086"
)

// Fleet is the nodes of one control plane.
type Fleet struct {
	Nodes []*Node

	cluster *cluster.Cluster
	dir     string
	delay   time.Duration // of both shutdowns
	args    []string      // more flags of the sidecars
}

// Node is a kube-apiserver and the sidecar beside it.
type Node struct {
	ID      string
	Address string // an IP
	API     *cluster.APIServer
	Sidecar *cluster.Sidecar

	fleet *Fleet
}

// FleetConfig configures a fleet.
type FleetConfig struct {
	Cluster   *cluster.Cluster
	Dir       string
	Addresses []string
	// Delay is how long a kube-apiserver and a sidecar go on serving after SIGTERM.
	Delay time.Duration
	Args  []string // more flags of the sidecars
}

// NewFleet returns a fleet of which no node runs yet.
func NewFleet(cfg FleetConfig) *Fleet {
	f := &Fleet{cluster: cfg.Cluster, dir: cfg.Dir, delay: cfg.Delay, args: cfg.Args}
	for i, address := range cfg.Addresses {
		f.Nodes = append(f.Nodes, &Node{ID: fmt.Sprintf("cp-%d", 1+i), Address: address, fleet: f})
	}
	return f
}

// Start starts all nodes with a release, and returns when all gates are open.
func (f *Fleet) Start(ctx context.Context, release string) error {
	return f.each(func(n *Node) error {
		if err := n.Start(release); err != nil {
			return err
		}
		return n.AwaitReady(ctx)
	})
}

func (f *Fleet) each(do func(*Node) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(f.Nodes))
	for i, n := range f.Nodes {
		all.Go(func() { errs[i] = do(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Start starts the kube-apiserver with a certificate of the node and the release, and the
// sidecar with the bundle of the release.
func (n *Node) Start(release string) error {
	f := n.fleet
	dir, err := f.bundle(release)
	if err != nil {
		return err
	}
	cert, key, err := f.cluster.NodeCertificate(n.ID+" "+release, net.ParseIP(n.Address))
	if err != nil {
		return err
	}
	n.API, err = f.cluster.StartAPIServer(cluster.APIServerConfig{
		Name: n.ID, Addr: net.JoinHostPort(n.Address, apiPort),
		Args: []string{
			"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
			"--shutdown-delay-duration=" + f.delay.String(), "--shutdown-send-retry-after=true",
		},
	})
	if err != nil {
		return err
	}
	return n.startSidecar(dir)
}

func (n *Node) startSidecar(bundle string) (err error) {
	f := n.fleet
	n.Sidecar, err = f.cluster.StartSidecar(cluster.SidecarConfig{
		NodeID: n.ID, Kubeconfig: n.API.Kubeconfig(), Bundle: bundle, Listen: net.JoinHostPort(n.Address, sidecarPort),
		LeaseTTL: 5 * time.Second, ShutdownDelay: &f.delay, Args: append([]string{"--apiserver-readyz"}, f.args...),
	})
	return err
}

// Stop stops both at the same moment, as a kubelet stops the containers of a pod, and
// returns when both have ended.
func (n *Node) Stop() error {
	sidecar := make(chan error, 1)
	go func() { sidecar <- n.Sidecar.Stop() }()
	return errors.Join(n.API.Stop(), <-sidecar)
}

// AwaitReady returns when /readyz of the sidecar reports that the node may serve.
func (n *Node) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := cluster.Poll(ctx, n.Sidecar.Readyz); err != nil {
		return fmt.Errorf("wait for %s: %w", n.ID, err)
	}
	return nil
}

// Roll upgrades all nodes to a release, one after another.
func (f *Fleet) Roll(ctx context.Context, release string) error {
	for _, n := range f.Nodes {
		if err := errors.Join(n.Stop(), n.Start(release)); err != nil {
			return err
		}
		if err := n.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// constraints are M and A of each release. Each release needs objects of the one before,
// and the objects of 1.2.0 and later need a kube-apiserver of the release before.
var constraints = map[string][2]string{
	"1.0.0": {"0.9.0", "0.9.0"},
	"1.1.0": {"1.0.0", "1.1.0"},
	"1.2.0": {"1.1.0", "1.2.0"},
}

// bundle writes the bundle of a release, if it does not exist yet. Its ConfigMap contains
// what Fits needs.
func (f *Fleet) bundle(release string) (string, error) {
	dir := filepath.Join(f.dir, "bundle-"+release)
	c, known := constraints[release]
	if !known {
		return "", fmt.Errorf("no release %q", release)
	}
	for name, text := range map[string]string{
		"bundle.yaml": fmt.Sprintf("apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: platform}\n"+
			"release: %s\nminReconcilerRelease: %s\nminApiserverRelease: %s\n", release, c[0], c[1]),
		"objects.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: platform, namespace: default}\n"+
			"data: {release: %s, minApiserver: %s}\n", release, c[1]),
	} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// Fits reports whether a kube-apiserver of a release is compatible with objects that need
// a release, and are of one.
func Fits(server, objects, minApiserver string) (bool, error) {
	c, known := constraints[server]
	if !known {
		return false, fmt.Errorf("no release %q", server)
	}
	for _, pair := range [][2]string{{server, minApiserver}, {objects, c[0]}} {
		has, err := semver.ParseRelease(pair[0])
		if err != nil {
			return false, err
		}
		needs, err := semver.ParseRelease(pair[1])
		if err != nil {
			return false, err
		}
		if has.Compare(needs) < 0 {
			return false, nil
		}
	}
	return true, nil
}
