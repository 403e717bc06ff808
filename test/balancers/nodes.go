package balancers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// The ports of docs/load-balancers.md.
const (
	apiPort     = "6443"
	sidecarPort = "8086"
)

// LeaseTTL is the lease TTL of the sidecars, unless a FleetConfig sets another.
const LeaseTTL = 5 * time.Second

// patience is the limit for nodes and clients. Only something broken takes longer.
const patience = 2 * time.Minute

// Fleet is the nodes of one control plane.
type Fleet struct {
	Nodes []*Node
	// SidecarDelay is how long a sidecar that starts from now on goes on serving after SIGTERM.
	SidecarDelay time.Duration
	// LeaseTTL is the lease TTL of a sidecar that starts from now on.
	LeaseTTL time.Duration

	cluster *cluster.Cluster
	dir     string
	delay   time.Duration // the same of the kube-apiservers
	prefix  string        // of the keys of the sidecars and of the kube-apiservers
	without bool          // no sidecars run
	service bool          // the Service kubernetes is written
	objects map[string]string
	etcd    []string

	mu      sync.Mutex        // mu guards bundles
	bundles map[string]string // directories that were written, by release
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
	// Prefix begins the keys of the sidecars and of the kube-apiservers, such as /x/;
	// empty: the defaults.
	Prefix string
	// Service lets the sidecars write the Service kubernetes, or, without them, the
	// kube-apiservers. Addresses must not be loopback addresses then.
	Service bool
	// LeaseTTL is the lease TTL of the sidecars; 0: the constant LeaseTTL.
	LeaseTTL time.Duration
	// WithoutLockstep runs no sidecars: each node applies its own objects when it starts, like
	// releases that know nothing of each other.
	WithoutLockstep bool
	// Objects are more objects of each release, as YAML. nil: none.
	Objects map[string]string
	// EtcdServers are the sidecars' etcd; nil: the Cluster's, which the kube-apiservers use.
	EtcdServers []string
}

// NewFleet returns a fleet of which no node runs yet.
func NewFleet(cfg FleetConfig) *Fleet {
	f := &Fleet{
		SidecarDelay: cfg.Delay, LeaseTTL: cmp.Or(cfg.LeaseTTL, LeaseTTL), cluster: cfg.Cluster, dir: cfg.Dir, delay: cfg.Delay,
		prefix: cfg.Prefix, without: cfg.WithoutLockstep, service: cfg.Service, objects: cfg.Objects, etcd: cfg.EtcdServers,
		bundles: map[string]string{},
	}
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

// Start starts the kube-apiserver, and then the sidecar with the bundle of the release.
func (n *Node) Start(release string) error {
	if err := n.StartAPI(release); err != nil {
		return err
	}
	return n.StartSidecar(release)
}

// StartAPI starts the kube-apiserver with a certificate of the node and the release, and
// returns when it is ready.
func (n *Node) StartAPI(release string) error {
	f := n.fleet
	cert, key, err := f.cluster.NodeCertificate(n.ID+" "+release, net.ParseIP(n.Address))
	if err != nil {
		return err
	}
	args := []string{
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
		"--shutdown-delay-duration=" + f.delay.String(), "--shutdown-send-retry-after=true",
	}
	if f.prefix != "" {
		args = append(args, "--etcd-prefix="+f.prefix+"registry")
	}
	if f.service && f.without {
		args = append(args, "--endpoint-reconciler-type=lease")
	}
	n.API, err = f.cluster.StartAPIServer(cluster.APIServerConfig{Name: n.ID, Addr: net.JoinHostPort(n.Address, apiPort), Args: args})
	return err
}

// StartSidecar starts the sidecar. Without Lockstep it applies the objects.
func (n *Node) StartSidecar(release string) error {
	f := n.fleet
	if f.without {
		return n.apply(release)
	}
	bundle, err := f.bundle(release)
	if err != nil {
		return err
	}
	args := []string{"--apiserver-readyz"}
	if f.service {
		args = append(args, "--kubernetes-service", "--insecure-listen", "--anonymous-status")
	}
	n.Sidecar, err = f.cluster.StartSidecar(cluster.SidecarConfig{
		NodeID: n.ID, Kubeconfig: n.API.Kubeconfig(), Bundle: bundle, Listen: net.JoinHostPort(n.Address, sidecarPort),
		LeaseTTL: f.LeaseTTL, ShutdownDelay: &f.SidecarDelay, EtcdPrefix: f.prefix, EtcdServers: f.etcd, Args: args,
	})
	return err
}

// Stop stops both at the same moment, as a kubelet stops the containers of a pod, and
// returns when both ended.
func (n *Node) Stop() error {
	if n.Sidecar == nil {
		return n.API.Stop()
	}
	sidecar := make(chan error, 1)
	go func() { sidecar <- n.Sidecar.Stop() }()
	return errors.Join(n.API.Stop(), <-sidecar)
}

// Kill ends both at once, as the loss of the machine does: the sidecar cannot notice the end
// of its kube-apiserver.
func (n *Node) Kill() error {
	if n.Sidecar == nil {
		return n.API.Kill()
	}
	return errors.Join(n.Sidecar.Kill(), n.API.Kill())
}

// AwaitReady returns when /readyz of the sidecar reports that the node may serve. Without
// one, a kube-apiserver that was started is ready.
func (n *Node) AwaitReady(ctx context.Context) error {
	if n.Sidecar == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := cluster.Poll(ctx, n.Sidecar.Readyz); err != nil {
		return fmt.Errorf("wait for %s: %w", n.ID, err)
	}
	return nil
}

// Times are the durations of restarts, part by part.
type Times struct {
	Stop time.Duration // from SIGTERM until kube-apiserver and sidecar ended
	API  time.Duration // from there until the new kube-apiserver is ready
	Gate time.Duration // from there until the gate of the new sidecar is open
}

func (t Times) add(o Times) Times { return Times{t.Stop + o.Stop, t.API + o.API, t.Gate + o.Gate} }

// Roll takes nodes to a release, one after another, and waits until each is ready. It
// returns the times of all of them together.
func Roll(ctx context.Context, release string, nodes ...*Node) (Times, error) {
	var all Times
	for _, n := range nodes {
		took, err := n.restart(ctx, release)
		if err != nil {
			return all, err
		}
		all = all.add(took)
	}
	return all, nil
}

func (n *Node) restart(ctx context.Context, release string) (took Times, err error) {
	begin := time.Now()
	if err := n.Stop(); err != nil {
		return took, err
	}
	stopped := time.Now()
	if err := n.StartAPI(release); err != nil {
		return took, err
	}
	started := time.Now()
	if err := n.StartSidecar(release); err != nil {
		return took, err
	}
	err = n.AwaitReady(ctx)
	return Times{stopped.Sub(begin), started.Sub(stopped), time.Since(started)}, err
}

// RollBack takes nodes back to an older release, one after another. It does not wait until
// they are ready: their gates may be closed for as long as other nodes run the newer one.
func RollBack(release string, nodes ...*Node) error {
	for _, n := range nodes {
		if err := errors.Join(n.Stop(), n.Start(release)); err != nil {
			return err
		}
	}
	return nil
}

// AwaitReady returns when all nodes are ready.
func (f *Fleet) AwaitReady(ctx context.Context) error {
	return f.each(func(n *Node) error { return n.AwaitReady(ctx) })
}

// Stop stops all nodes.
func (f *Fleet) Stop() error { return f.each((*Node).Stop) }

// apply writes the objects of a release, as kubectl apply would.
func (n *Node) apply(release string) error {
	client, err := dynamic.NewForConfig(n.API.Config())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "platform", "namespace": "default"},
		"data": map[string]any{"release": release, "minApiserver": constraints[release][1]},
	}}
	configMaps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	_, err = configMaps.Apply(ctx, "platform", object, metav1.ApplyOptions{FieldManager: "node", Force: true})
	return err
}

// constraints are M and A of each release. Each release needs objects of the one before,
// and the objects of 1.2.0 and later need a kube-apiserver of the release before.
var constraints = map[string][2]string{
	"1.0.0": {"0.9.0", "0.9.0"},
	"1.1.0": {"1.0.0", "1.1.0"},
	"1.2.0": {"1.1.0", "1.2.0"},
}

// bundle writes the bundle of a release, unless it was written before: other sidecars may
// be reading it. Its ConfigMap contains the input of Fits.
func (f *Fleet) bundle(release string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if dir, written := f.bundles[release]; written {
		return dir, nil
	}
	dir := filepath.Join(f.dir, "bundle-"+release)
	c, known := constraints[release]
	if !known {
		return "", fmt.Errorf("no release %q", release)
	}
	for name, text := range map[string]string{
		"bundle.yaml": fmt.Sprintf("apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: platform}\n"+
			"release: %s\nminReconcilerRelease: %s\nminApiserverRelease: %s\n", release, c[0], c[1]),
		"objects.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: platform, namespace: default}\n"+
			"data: {release: %s, minApiserver: %s}\n%s", release, c[1], f.objects[release]),
	} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			return "", err
		}
	}
	f.bundles[release] = dir
	return dir, nil
}

// Fits reports whether a kube-apiserver of a release is compatible with objects that need
// a release, and are of one.
func Fits(server, objects, minAPIServer string) (bool, error) {
	c, known := constraints[server]
	if !known {
		return false, fmt.Errorf("no release %q", server)
	}
	for _, pair := range [][2]string{{server, minAPIServer}, {objects, c[0]}} {
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
