package upgrade

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Config configures a Walk.
type Config struct {
	Cluster *cluster.Cluster // with an etcd and nothing else; without etcd if there are Addresses; required
	Dir     string           // for the bundles; required
	OnEvent func(Event)      // called in order, one at a time; nil: no calls
	// Addresses, one for each node, make each node one command: its sidecar runs a member of
	// etcd and a kube-apiserver, at this IP address of this machine and the default ports.
	// Empty: the walk starts kube-apiservers and sidecars, and all share Cluster's etcd.
	Addresses []string
	// Assets is the directory of the binaries, and Services the directory of the services
	// that the sidecars run. Required with Addresses.
	Assets, Services string
}

// Event reports an action of the walk, a change of an object, or a change of the view.
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
	builds  map[string]build // by release; only with Addresses
	history *history
	clients *clients
	prober  *cluster.Prober
	nodes   [NodeCount]*node
	begin   time.Time

	mu       sync.Mutex // mu guards the fields below; held while OnEvent runs
	view     View
	losses   []error // ready nodes that stopped being ready, although the walk did not stop them
	misfits  []error // nodes that were ready although the status did not admit them
	starts   int     // of nodes with another release than before
	records  int     // of a release that was new for its node
	mistimed []error // those that were written too early
}

// node is one machine. Its addresses stay the same across upgrades.
type node struct {
	id, apiAddr, listen string
	command                    // with Addresses
	registered          string // release of its last start; Walk's mu guards it

	mu      sync.Mutex         // mu guards the fields below
	release string             // empty: it does not run
	api     *cluster.APIServer // nil with Addresses: the sidecar runs it
	former  int                // process ID of the kube-apiserver before it; 0: none. Only with Addresses
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
	w.history = newHistory(b, w.note, w.checkRecord)
	for i, id := range []string{nodeA, nodeB, nodeC} {
		w.view.Nodes[i].ID = id
		if w.byCommand() {
			w.nodes[i], err = w.newCommand(id, cfg.Addresses[i])
		} else {
			w.nodes[i], err = newNode(id)
		}
		if err != nil {
			return nil, err
		}
	}
	if w.byCommand() {
		if w.builds, err = newBuilds(cfg); err != nil {
			return nil, err
		}
	}
	w.clients, err = newClients(w)
	return w, err
}

// Versions returns the version of the kube-apiserver of each release; nil: all are of the
// same build.
func (w *Walk) Versions() map[string]string {
	if !w.byCommand() {
		return nil
	}
	out := map[string]string{}
	for release, b := range w.builds {
		out[release] = b.version
	}
	return out
}

// Run observes the control plane until ctx ends. Claims are checked against its
// observations. It returns an error if it could not observe everything.
func (w *Walk) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { w.observe(ctx) })
	watching.Go(func() { w.clients.run(ctx) })
	err := w.follow(ctx)
	cancel() // all ends with the first that ends
	watching.Wait()
	return err
}

// follow records the history of etcd until ctx ends.
func (w *Walk) follow(ctx context.Context) error {
	client, err := w.connect(ctx)
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // the walk has ended
	case err != nil:
		return fmt.Errorf("watch the walk: %w", err)
	}
	err = w.history.follow(ctx, client)
	// Close reports the end of the client's context, which is intended.
	_ = client.Close()
	return err
}

func (w *Walk) connect(ctx context.Context) (*clientv3.Client, error) {
	if w.byCommand() {
		return w.memberClient(ctx)
	}
	return clientv3.New(clientv3.Config{Endpoints: w.cfg.Cluster.Endpoints(), Logger: zap.NewNop()})
}

// Do executes a step. It returns when every part that it started answers, before the
// step's claims are true.
func (w *Walk) Do(ctx context.Context, s Step) error {
	if s.Node == "" {
		defer w.clients.begin()
		return w.startAll(ctx, s.Release)
	}
	i := slices.IndexFunc(w.nodes[:], func(n *node) bool { return n.id == s.Node })
	if i < 0 {
		return fmt.Errorf("there is no node %q", s.Node)
	}
	n := w.nodes[i]
	if s.Rollback {
		return w.rollBack(ctx, n, s.Release)
	}
	if err := w.stop(n); err != nil {
		return err
	}
	w.announce(n, s.Release)
	if err := w.start(ctx, n, s.Release); err != nil || !s.Kill {
		return err
	}
	leads, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if err := cluster.Poll(leads, w.claimLeader(n.id)); err != nil {
		return err
	}
	w.clients.excuse(true)
	defer w.clients.excuse(false)
	if err := w.kill(n); err != nil {
		return err
	}
	w.announce(n, s.Release)
	return w.start(ctx, n, s.Release)
}

// rollBack types on a node that the objects of a release are wanted back.
func (w *Walk) rollBack(ctx context.Context, n *node, release string) error {
	args := []string{"rollback", "begin", "--to", release}
	w.note(n.id + " $ sidecar " + strings.Join(args, " "))
	etcd := "--data-dir=" + n.dataDir
	if !w.byCommand() {
		etcd = "--etcd-servers=" + strings.Join(w.cfg.Cluster.Endpoints(), ",")
	}
	_, err := w.execute(ctx, append(args, etcd)...)
	return err
}

// startAll waits until the first node leads before it starts the others.
func (w *Walk) startAll(ctx context.Context, release string) error {
	first := w.nodes[0]
	w.announce(first, release)
	if err := w.start(ctx, first, release); err != nil {
		return err
	}
	if err := cluster.Poll(ctx, first.sidecar.Readyz); err != nil {
		return err
	}
	if w.byCommand() {
		if err := w.invite(ctx, first, w.nodes[1:]); err != nil {
			return err
		}
	}
	var starting sync.WaitGroup
	var errs [NodeCount]error
	for i, n := range w.nodes[1:] {
		w.announce(n, release)
		starting.Go(func() { errs[i] = w.start(ctx, n, release) })
	}
	starting.Wait()
	return errors.Join(errs[:]...)
}

// announce says that a node is about to start.
func (w *Walk) announce(n *node, release string) {
	if w.byCommand() {
		w.note(n.typed(release))
		return
	}
	w.note("start " + n.id + " with " + release)
}

// start starts a node with a release, and returns when its kube-apiserver answers.
func (w *Walk) start(ctx context.Context, n *node, release string) error {
	w.mu.Lock()
	if n.registered != release { // otherwise its record stays as it is
		n.registered = release
		w.starts++
	}
	w.mu.Unlock()
	if w.byCommand() {
		return w.startCommand(ctx, n, release)
	}
	return w.startParts(n, release)
}

// startParts starts the node's kube-apiserver and then its sidecar. The old kube-apiserver
// must not run any more: a sidecar registers the release of its kube-apiserver
// (docs/protocol-nodes.md#registration).
func (w *Walk) startParts(n *node, release string) error {
	api, err := w.cfg.Cluster.StartAPIServer(cluster.APIServerConfig{
		Name: n.id,
		Addr: n.apiAddr,
		Args: apiArgs(),
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

		ShutdownDelay: &shutdownDelay,
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
	if w.byCommand() {
		return w.stopCommand(n, sidecar)
	}
	return errors.Join(sidecar.Stop(), api.Stop())
}

// kill kills all that runs on a node, as the loss of the machine does.
func (w *Walk) kill(n *node) error {
	n.mu.Lock()
	api, sidecar := n.api, n.sidecar
	n.release, n.ready, n.silent = "", false, 0
	n.mu.Unlock()
	w.note("kill " + n.id)
	if w.byCommand() {
		return w.killCommand(n, sidecar)
	}
	return errors.Join(sidecar.Kill(), api.Kill())
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

// note reports an action, with the newest view.
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
