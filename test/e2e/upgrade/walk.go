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

// Config says how to walk.
type Config struct {
	Cluster *cluster.Cluster // that has no part but its etcd yet; needed
	Dir     string           // for the bundles; needed
	OnEvent func(Event)      // called in order, one at a time; nil: nobody looks
}

// Event is something to see: what is being done or what happened to an object,
// or else a change of the view.
type Event struct {
	At   time.Duration // since the walk began
	Text string        // empty: the view changed
	View View
}

// Walk is a control plane on its way. Do and Claims are for one goroutine, Run
// for another.
type Walk struct {
	cfg     Config
	bundles bundles
	history *history
	prober  *cluster.Prober
	nodes   [NodeCount]*node
	begin   time.Time

	mu      sync.Mutex // mu guards what follows; held while OnEvent runs
	view    View
	losses  []error // of readiness that nobody asked for
	misfits []error // nodes that were ready and should not have been
}

// node is one machine. Its addresses stay the same across upgrades.
type node struct {
	id, apiAddr, listen string

	mu      sync.Mutex // mu guards what follows
	release string     // empty: it does not run
	api     *cluster.APIServer
	sidecar *cluster.Sidecar
	client  dynamic.Interface
	ready   bool // was seen ready since it was started
	silent  int  // probes in a row that were not answered in time
}

// New prepares a walk. It starts the kubelet's prober and nothing else.
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
		w.view.Nodes[i].ID = id
	}
	return w, nil
}

// Run watches the control plane until ctx ends: what claims are checked against
// is what Run saw. It returns an error where it could not see everything.
func (w *Walk) Run(ctx context.Context) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: w.cfg.Cluster.Etcd.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("watch the walk: %w", err)
	}
	var watching sync.WaitGroup
	watching.Go(func() { w.look(ctx) })
	err = w.history.follow(ctx, client)
	watching.Wait()
	// Close reports the end of the client's context, which is what it is for.
	_ = client.Close()
	return err
}

// Do carries a step out. It returns when all that was started answers, which is
// before the step's claims are true.
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

// startAll lets the first node lead before the others come.
func (w *Walk) startAll(ctx context.Context, release string) error {
	first := w.nodes[0]
	w.note("start " + first.id + " with " + release)
	if err := w.start(first, release); err != nil {
		return err
	}
	if err := cluster.Poll(ctx, first.sidecar.Readyz); err != nil {
		return err
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

// start starts the node's apiserver and then its sidecar. It is only called
// once the old apiserver has stopped: a sidecar's release stands for that of its
// apiserver (DESIGN 4.2).
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
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.release, n.api, n.client, n.sidecar = release, api, client, sidecar
	return nil
}

// stop stops the sidecar while its apiserver is still there, as a leader ends
// its work with it, and then the apiserver.
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
