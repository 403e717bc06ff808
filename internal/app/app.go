package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/status"
)

// App is a whole sidecar.
type App struct {
	opts     Options
	id       identity
	log      *slog.Logger
	rest     *rest.Config
	listener net.Listener
	address  string
	warnings []string

	local  *event.Value[protocol.Local]
	bundle *event.Value[*bundle.Bundle]
	// bundleProblem is why the bundle as it is in its folder is not used; empty:
	// it is.
	bundleProblem *event.Value[string]

	etcd      *etcd.Client
	follower  *fleet.Follower
	presence  *fleet.Presence
	says      *event.Value[fleet.Says]
	registrar *fleet.Registrar
	store     *status.Store
	gate      *status.Gate
	reconcile *reconcile.Reconciler
	election  *election.Election

	apiserver  *event.Value[httpapi.APIServer]
	etcdFaults *event.Value[[]string]
	snapshot   *event.Value[httpapi.Snapshot]
	server     *httpapi.Server
}

// Run runs a sidecar until ctx ends, and returns nil then. An error says why it
// could not start, or not go on; the message is meant for people.
func Run(ctx context.Context, opts Options, log *slog.Logger) error {
	a, err := New(opts, log)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// New reads the bundle, the kubeconfig and the certificates, and listens. It
// starts nothing; Run or Close has to follow.
func New(opts Options, log *slog.Logger) (*App, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	id, err := newIdentity(opts)
	if err != nil {
		return nil, err
	}
	b, err := loadBundle(opts.Bundle)
	if err != nil {
		return nil, err
	}
	kube, err := restConfig(opts.Kubeconfig)
	if err != nil {
		return nil, err
	}
	a := &App{
		opts: opts, id: id, rest: kube,
		log:    log.With("node", string(id.node)),
		bundle: event.New(b),

		bundleProblem: event.New(""),
		local:         event.New(localOf(id.node, b, opts)),
		says:          event.New(fleet.Says{}),
		apiserver:     event.New(httpapi.APIServer{Enabled: opts.APIServerReadyz}),
		etcdFaults:    event.New[[]string](nil),
	}
	if warning := notLocal(kube); warning != "" {
		a.warnings = append(a.warnings, warning)
		a.log.Warn("kubeconfig does not lead to this machine", "problem", warning)
	}
	if err := a.wire(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func loadBundle(dir string) (*bundle.Bundle, error) {
	if dir == "" {
		return bundle.Builtin()
	}
	return bundle.Load(dir)
}

func localOf(id protocol.NodeID, b *bundle.Bundle, opts Options) protocol.Local {
	return protocol.Local{
		ID: id, Version: b.Version, Constraints: b.Constraints, Digest: b.Digest,
		PruneImmediately: b.PruneImmediately, FenceAfter: opts.ExpireDeadNodes,
	}
}

// wire makes the parts, in the order in which they need each other.
func (a *App) wire() error {
	var err error
	reach := a.opts.EtcdConfig()
	reach.Log = a.log.With("worker", "etcd")
	if a.etcd, err = etcd.NewClient(reach); err != nil {
		return err
	}
	if a.listener, err = net.Listen("tcp", a.opts.Listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	a.address = address(a.opts, a.listener)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.wireFleet(registry)
	if err := a.wireLeader(registry); err != nil {
		return err
	}
	a.registerMetrics(registry)
	return a.wireServer(registry)
}

func (a *App) wireFleet(registry prometheus.Registerer) {
	a.follower = fleet.NewFollower(a.etcd)
	a.presence = fleet.NewPresence(fleet.PresenceConfig{
		Client: a.etcd, Node: a.id.node, Instance: a.id.instance, MachineID: a.id.machineID,
		TTL: a.opts.LeaseTTL, Says: a.says, Log: a.log.With("worker", "presence"),
	})
	a.registrar = fleet.NewRegistrar(fleet.RegistrarConfig{
		Client: a.etcd, Local: a.local, Address: a.address, BootID: a.id.bootID,
		Presence: a.presence.Lease(), Fleet: a.follower.Fleet(), Log: a.log.With("worker", "registrar"),
	})
	a.store = status.NewStore(a.etcd)
	a.gate = status.NewGate(status.GateConfig{
		Store: a.store, Local: a.local, Registration: a.registrar.Registration(),
		Contact: a.etcd.Contact(), Log: a.log.With("worker", "gate"), Registerer: registry,
	})
}

func (a *App) wireLeader(registry prometheus.Registerer) error {
	var err error
	a.reconcile, err = reconcile.New(reconcile.Config{
		RESTConfig: a.rest, UserAgent: "lockstep/" + buildinfo.Get().Version, Bundle: a.bundle, Concurrency: a.opts.ApplyConcurrency,
		AllowMassPrune: a.opts.AllowMassPrune, Log: a.log, Registerer: registry,
	})
	if err != nil {
		return err
	}
	a.election = election.New(election.Config{
		Client: a.etcd, Store: a.store, Local: a.local, Fleet: a.follower.Fleet(), Applier: applier{a.reconcile},
		TTL: a.opts.LeaseTTL, ResyncInterval: a.opts.ResyncInterval, YieldAfter: a.opts.LeaderYieldAfter,
		Log: a.log.With("worker", "election"), Registerer: registry,
	})
	return nil
}

func (a *App) wireServer(registry *prometheus.Registry) error {
	a.snapshot = event.New(a.look())
	var err error
	a.server, err = httpapi.New(httpapi.Config{
		Snapshot: a.snapshot, Log: a.log, Registerer: registry,
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		Build:   httpapi.Build(buildinfo.Get()),
		Flags:   a.opts.Flags,
		TLS: httpapi.TLS{
			CertFile: a.opts.TLSCertFile, KeyFile: a.opts.TLSKeyFile, ClientCAFile: a.opts.ClientCAFile,
		},
	})
	return err
}

// URL returns where this machine reaches the listener.
func (a *App) URL() string {
	scheme := "http"
	if a.opts.TLSCertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + a.listener.Addr().String()
}

// Gate returns the readiness gate, for programs that embed a sidecar.
func (a *App) Gate() *status.Gate { return a.gate }

// Close gives back what New took, where Run is not called.
func (a *App) Close() error {
	var errs []error
	if a.listener != nil {
		errs = append(errs, a.listener.Close())
	}
	if a.etcd != nil {
		errs = append(errs, a.etcd.Close())
	}
	return errors.Join(errs...)
}
