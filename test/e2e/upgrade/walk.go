package upgrade

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Config is what a Walk needs.
type Config struct {
	Cluster *cluster.Cluster // with an etcd and nothing else; required
	Dir     string           // for the bundles; required
	OnEvent func(Event)      // called in order, one at a time; nil: no calls
	// Addresses, one for each node, make the sidecars run etcd themselves, at these IP
	// addresses of this machine and the default ports. Cluster's etcd is for the
	// kube-apiservers only then. Empty: all share it.
	Addresses []string
}

// Event is what the walk does now, a change of an object, or a change of the view.
type Event struct {
	At   time.Duration // since the walk began
	Text string        // empty: the view changed
	View View
}

// Walk is a control plane and its steps. Call Do and Claims from one goroutine, and
// Run from another.
type Walk struct {
	cfg     Config
	bundles bundles
	history *history
	prober  *cluster.Prober
	nodes   [NodeCount]*node
	begin   time.Time

	mu      sync.Mutex // mu guards the fields below; held while OnEvent runs
	view    View
	losses  []error // ready nodes that stopped being ready, although the walk did not stop them
	misfits []error // nodes that were ready although the status did not admit them
}

// node is one machine. Its addresses stay the same across upgrades.
type node struct {
	id, apiAddr, listen string

	dataDir string   // of the etcd member; empty: it has none
	flags   []string // that its sidecar has besides, since its first start

	mu      sync.Mutex // mu guards the fields below
	release string     // empty: it does not run
	api     *cluster.APIServer
	sidecar *cluster.Sidecar
	client  dynamic.Interface
	ready   bool // it was ready once since it was started
	silent  int  // probes in a row that timed out
}

// New prepares a walk. It starts only the kubelet's prober.
func New(cfg Config) (*Walk, error) {
	b, err := writeBundles(filepath.Join(cfg.Dir, "bundles"))
	if err != nil {
		return nil, err
	}
	prober, err := cfg.Cluster.StartProber()
	if err != nil {
		return nil, err
	}
	w := &Walk{cfg: cfg, bundles: b, prober: prober, begin: time.Now()}
	w.history = newHistory(b, w.note)
	for i, id := range []string{nodeA, nodeB, nodeC} {
		if w.nodes[i], err = newNode(id); err != nil {
			return nil, err
		}
		if w.embedded() {
			w.nodes[i].newMember(cfg.Dir, cfg.Addresses[i])
		}
		w.view.Nodes[i].ID = id
	}
	return w, nil
}

// Run observes the control plane until ctx ends. Claims are checked against what it
// observed. It returns an error if it could not observe everything.
func (w *Walk) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { w.observe(ctx) })
	err := make(chan error, 2) // has room for those of both etcds
	follow := func(connect func() (*clientv3.Client, error)) {
		watching.Go(func() {
			defer cancel() // all ends with the first that ends
			err <- w.follow(ctx, connect)
		})
	}
	follow(func() (*clientv3.Client, error) {
		return clientv3.New(clientv3.Config{Endpoints: w.cfg.Cluster.Endpoints(), Logger: zap.NewNop()})
	})
	if w.embedded() {
		follow(func() (*clientv3.Client, error) { return w.memberClient(ctx) })
	}
	watching.Wait()
	close(err)
	var all error
	for one := range err {
		all = errors.Join(all, one)
	}
	return all
}

// follow records the history of one etcd until ctx ends.
func (w *Walk) follow(ctx context.Context, connect func() (*clientv3.Client, error)) error {
	client, err := connect()
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // the walk has ended
	case err != nil:
		return fmt.Errorf("watch the walk: %w", err)
	}
	err = w.history.follow(ctx, client)
	// Close returns that the client's context has ended, which is intended.
	_ = client.Close()
	return err
}

// Do executes a step. It returns when every part that it started answers, before the
// step's claims are true.
func (w *Walk) Do(ctx context.Context, s Step) error {
	if s.Node == "" {
		return w.startAll(ctx, s.Release)
	}
	for _, n := range w.nodes {
		if n.id != s.Node {
			continue
		}
		if err := w.stop(n); err != nil {
			return err
		}
		w.note("start " + n.id + " with " + s.Release)
		return w.start(n, s.Release)
	}
	return fmt.Errorf("there is no node %q", s.Node)
}

// startAll waits until the first node leads before it starts the others.
func (w *Walk) startAll(ctx context.Context, release string) error {
	first := w.nodes[0]
	w.note("start " + first.id + " with " + release)
	if w.embedded() {
		w.note(first.id + " $ sidecar run --etcd=embedded")
	}
	if err := w.start(first, release); err != nil {
		return err
	}
	if err := cluster.Poll(ctx, first.sidecar.Readyz); err != nil {
		return err
	}
	if w.embedded() {
		if err := w.invite(ctx, first, w.nodes[1:]); err != nil {
			return err
		}
	}
	w.note("start the others with " + release)
	var starting sync.WaitGroup
	var errs [NodeCount]error
	for i, n := range w.nodes[1:] {
		starting.Go(func() { errs[i] = w.start(n, release) })
	}
	starting.Wait()
	return errors.Join(errs[:]...)
}

// start starts the node's kube-apiserver and then its sidecar. The old kube-apiserver
// must have stopped: a sidecar registers the release of its kube-apiserver
// (docs/protocol.md#registration).
func (w *Walk) start(n *node, release string) error {
	api, err := w.cfg.Cluster.StartAPIServer(cluster.APIServerConfig{
		Name: n.id,
		Addr: n.apiAddr,
		Args: []string{"--storage-media-type=application/json"}, // for history
	})
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		return fmt.Errorf("start node %s: %w", n.id, err)
	}
	sidecar, err := w.cfg.Cluster.StartSidecar(cluster.SidecarConfig{
		NodeID:     n.id,
		Kubeconfig: api.Kubeconfig(),
		Bundle:     w.bundles.path(release),
		Listen:     n.listen,
		EtcdInArgs: w.embedded(),
		Args:       n.flags,
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.release, n.api, n.client, n.sidecar = release, api, client, sidecar
	return nil
}

// stop stops the sidecar and then its kube-apiserver: a leader needs it to end its
// work.
func (w *Walk) stop(n *node) error {
	n.mu.Lock()
	release, api, sidecar := n.release, n.api, n.sidecar
	n.release, n.ready, n.silent = "", false, 0
	n.mu.Unlock()

	w.note(fmt.Sprintf("stop %s (%s)", n.id, release))
	return errors.Join(sidecar.Stop(), api.Stop())
}

func newNode(id string) (*node, error) {
	n := &node{id: id}
	for _, addr := range []*string{&n.apiAddr, &n.listen} {
		var err error
		if *addr, err = cluster.FreeAddr(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// note reports what is done, with the newest view.
func (w *Walk) note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.emit(Event{Text: text})
}

// emit needs mu.
func (w *Walk) emit(e Event) {
	if w.cfg.OnEvent == nil {
		return
	}
	e.At, e.View = time.Since(w.begin), w.view
	w.cfg.OnEvent(e)
}
