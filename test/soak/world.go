package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/attack"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

const (
	leaseTTL       = 3 * time.Second
	yieldAfter     = 5 * time.Second
	resyncInterval = 10 * time.Second
	expireAfter    = 15 * time.Second
	probePause     = 100 * time.Millisecond
	probeTimeout   = 2 * time.Second
)

// world is the control plane under test.
type world struct {
	cluster *cluster.Cluster
	assets  string
	dir     string
	rec     *recorder
	logf    func(format string, args ...any)
	variant variant

	shape shape
	// besieged: strangers attack all nodes, which serve HTTPS.
	besieged bool
	stranger attack.Target
	// network holds the machines of the nodes if these are their own quorum; nil: etcd's
	// members are in cluster.
	network *netns.Network
	etcd    *clientv3.Client // of all members, not through the proxies
	servers []*server
	nodes   []*node
	running sync.WaitGroup // goroutines that probe and restart sidecars

	calm                                      sync.RWMutex // held by each fault, and alone while there must be none
	etcdBusy, lossBusy, dropBusy, restoreBusy sync.Mutex   // held by a fault of its kind

	generation atomic.Int64 // of the file of the nodes' service

	mu    sync.Mutex     // mu guards the fields below
	count map[string]int // steps and faults, by kind
	exits []ending       // sidecars that exited by themselves
	edits int
	left  map[string]bool // IDs of pods that were replaced, and whose records may exist
	// broken is why the soak cannot go on; nil: it can.
	broken error
	build  [5]int // of each release: the one that sidecars load
}

// server is a kube-apiserver, and how the soak itself connects to it.
type server struct {
	busy    sync.Mutex // held while it is stopped, or its connections are impaired
	name    string
	addr    string
	machine *netns.Machine    // nil: this one
	members []*etcdtest.Proxy // before each etcd member; none on a machine of its own
	api     *cluster.APIServer
	client  dynamic.Interface
}

// node is a machine of the control plane: its sidecar, and its connections.
type node struct {
	slot    string // of nodeNames
	pod     bool   // it gets another ID whenever it is replaced, and its record is ephemeral
	as      atomic.Pointer[identity]
	server  *server
	gateway *gateway
	members []*etcdtest.Proxy // before each etcd member; none on a machine of its own
	machine *netns.Machine    // nil: this one
	dataDir string            // of its own member; empty: none
	secure  *secure           // nil: its sidecar serves HTTP

	network sync.Mutex // held by a fault of its connections
	busy    sync.Mutex // held while its process is started, stopped or frozen; guards the fields below
	sidecar *cluster.Sidecar
	join    []string // flags with which its member joined
	release int      // -1: no sidecar runs
	started int
	probing context.CancelFunc
	begun   time.Time // when its sidecar was started
	// duplicates is how many more sidecars there are with its ID, and duplicated when
	// the last of them ended.
	duplicates int
	duplicated time.Time
}

// ending is the end of a sidecar that the soak did not cause.
type ending struct {
	text string
	// explained: there was another sidecar with the node ID.
	explained bool
	revision  int64
	age       int
}

// newWorld starts everything except the sidecars; of these only those that etcd needs.
func newWorld(ctx context.Context, cfg Config, began time.Time, logf func(string, ...any)) (*world, error) {
	w := &world{
		cluster: cfg.Cluster, network: cfg.Network, shape: cfg.Shape, besieged: cfg.Strangers, assets: cfg.Assets, dir: cfg.Dir, logf: logf,
		variant: newVariant(cfg.Seed), count: map[string]int{}, left: map[string]bool{},
	}
	if w.shape.moves {
		w.variant.pods = 0
	}
	var err error
	if w.rec, err = newRecorder(nil, began); err != nil {
		return nil, err
	}
	if err := writeBundles(w.bundles(), w.variant.immediately); err != nil {
		return nil, err
	}
	if w.rec.history.Bundles, err = judged(w.bundles()); err != nil {
		return nil, err
	}
	for i := range w.shape.servers {
		s, err := w.newServer(i)
		if err != nil {
			return nil, err
		}
		w.servers = append(w.servers, s)
	}
	for i, id := range nodeNames[:w.shape.nodes] {
		n, err := w.newNode(i, id)
		if err != nil {
			return nil, err
		}
		w.nodes = append(w.nodes, n)
	}
	if w.besieged {
		if err := w.prepareStrangers(); err != nil {
			return nil, err
		}
	}
	if w.network != nil {
		err = w.form(ctx)
	} else {
		err = w.connect(nil)
	}
	if err == nil {
		err = w.startServers()
	}
	return w, errors.Join(err, ctx.Err())
}

func (w *world) newNode(i int, id string) (*node, error) {
	s := w.servers[i%w.shape.servers]
	n := &node{slot: id, server: s, release: -1}
	var err error
	if n.gateway, err = startGateway(w.cluster, "https://"+s.addr); err != nil {
		return nil, err
	}
	if w.network != nil {
		n.machine = w.network.Machine(id)
		if i < w.shape.members {
			n.dataDir = filepath.Join(w.dir, "data-"+id)
		}
		if w.shape.moves {
			if err := n.writeServices(0); err != nil {
				return nil, err
			}
		}
	}
	n.pod = i >= w.shape.nodes-w.variant.pods && n.dataDir == ""
	if n.members, err = w.proxiesToEtcd(); err != nil {
		return nil, err
	}
	return n, w.identify(n)
}

// close stops the parts that newWorld started. The test closes the cluster.
func (w *world) close() error {
	var errs []error
	for _, n := range w.nodes {
		n.busy.Lock()
		n.release = -1 // keep does not restart it
		if n.probing != nil {
			n.probing()
		}
		if n.sidecar != nil {
			errs = append(errs, n.sidecar.Kill())
		}
		n.busy.Unlock()
	}
	w.running.Wait()
	for _, s := range w.servers {
		if s.api != nil {
			errs = append(errs, s.api.Kill()) // a graceful stop would take longer
		}
		for _, p := range s.members {
			p.Close()
		}
	}
	for _, n := range w.nodes {
		n.as.Load().api.Close()
		for _, p := range n.members {
			p.Close()
		}
		errs = append(errs, n.gateway.close())
	}
	for _, client := range append(w.rec.clients, w.etcd) {
		// Close reports the end of the client's context, which it ends itself.
		_ = client.Close()
	}
	return errors.Join(errs...)
}

// addCount counts a step, a fault or another event.
func (w *world) addCount(kind string) { w.addCounts(kind, 1) }

func (w *world) addCounts(kind string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[kind] += n
}

func (w *world) bundles() string { return filepath.Join(w.dir, "bundles") }

func (w *world) sidecarConfig(n *node, index int) cluster.SidecarConfig {
	cfg := cluster.SidecarConfig{
		NodeID: n.name(), Kubeconfig: n.as.Load().kubeconfig, Bundle: bundleDir(w.bundles(), index),
		LeaseTTL: leaseTTL, ResyncInterval: resyncInterval,
		Args: []string{"--leader-yield-after=" + yieldAfter.String()},
	}
	if n.pod {
		cfg.Args = append(cfg.Args, "--ephemeral")
	}
	if n.pod || w.variant.expire {
		cfg.Args = append(cfg.Args, "--expire-dead-nodes="+expireAfter.String())
	}
	if n.machine == nil {
		cfg.EtcdServers = urls(n.members)
		return cfg
	}
	w.onMachine(n, &cfg)
	if w.shape.moves && n.dataDir != "" {
		cfg.Args = append(cfg.Args, "--services="+n.services(), "--shutdown-delay=300ms")
	}
	return cfg
}

// start starts a sidecar. The caller holds n.busy.
func (w *world) start(n *node, index int) error {
	s, err := w.cluster.StartSidecar(w.sidecarConfig(n, index))
	if err != nil {
		return err
	}
	n.sidecar, n.release = s, index
	n.started++
	n.begun = time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	n.probing = cancel
	instance := n.started
	id := n.name()
	pid := 0
	if w.shape.moves {
		pid = s.PID()
	}
	w.running.Go(func() { w.probe(ctx, id, instance, index, pid, s) })
	w.running.Go(func() { w.keep(n, s) })
	return nil
}

// keep restarts a sidecar that exited by itself, as a service manager does.
func (w *world) keep(n *node, s *cluster.Sidecar) {
	<-s.Done()
	n.busy.Lock()
	defer n.busy.Unlock()
	if n.sidecar != s || n.release < 0 {
		return // the soak stopped it
	}
	revision, age := w.rec.position()
	w.mu.Lock()
	w.exits = append(w.exits, ending{
		text:      fmt.Sprintf("%s #%d exited by itself with code %d", n.name(), n.started, s.ExitCode()),
		explained: n.hadDuplicate(), revision: revision, age: age,
	})
	w.mu.Unlock()
	w.logf("%s #%d exited by itself with code %d: %s", n.name(), n.started, s.ExitCode(), s.Ending())
	n.probing()
	if err := w.start(n, n.release); err != nil {
		w.logf("restart %s: %v", n.name(), err)
	}
}

// hadDuplicate reports whether there was another sidecar with the node's ID since its
// own one was started. The caller holds n.busy.
func (n *node) hadDuplicate() bool { return n.duplicates > 0 || n.duplicated.After(n.begun) }

// stop ends a sidecar, gracefully or as in a crash. The caller holds n.busy.
func (w *world) stop(n *node, how func(*cluster.Sidecar) error) error {
	if n.sidecar == nil {
		return nil
	}
	s := n.sidecar
	n.sidecar = nil // keep does not restart it
	err := how(s)
	n.probing()
	return err
}

func crashing(s *cluster.Sidecar) error { return s.Kill() }

// probe asks a sidecar whether it is ready until ctx ends.
func (w *world) probe(ctx context.Context, id string, instance, index, pid int, s *cluster.Sidecar) {
	client := s.NewClient(probeTimeout)
	for pause(ctx, probePause) {
		p := judge.Probe{Node: id, Instance: instance, Release: mustRelease(releases[index].name), Sidecar: pid, Sent: w.rec.now()}
		code, body, err := ask(ctx, client, s.URL()+"/readyz")
		if err != nil {
			continue
		}
		p.Got, p.Ready = w.rec.now(), code == http.StatusOK
		p.Reason = reasonIn(body)
		w.rec.addProbe(p)
	}
}

func ask(ctx context.Context, client *http.Client, url string) (code int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// reasonIn returns the gate's reason from the answer of a gate that is not ready.
func reasonIn(body string) protocol.Reason {
	for line := range strings.Lines(body) {
		if text, found := strings.CutPrefix(line, "[-]compatible failed: "); found {
			reason, _, _ := strings.Cut(text, ":")
			return protocol.Reason(strings.TrimSpace(reason))
		}
	}
	return ""
}

// ready returns when a node's sidecar is ready, or when the time limit is over.
func (w *world) ready(ctx context.Context, n *node, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return cluster.Poll(ctx, func(ctx context.Context) error {
		return n.ready(ctx)
	})
}

// ready returns nil if the node's sidecar is ready.
func (n *node) ready(ctx context.Context) error {
	s := n.running()
	if s == nil {
		return fmt.Errorf("%s has no sidecar", n.name())
	}
	return s.Readyz(ctx)
}

// running returns the node's sidecar, or nil.
func (n *node) running() *cluster.Sidecar {
	n.busy.Lock()
	defer n.busy.Unlock()
	return n.sidecar
}
