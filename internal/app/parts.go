package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/apiserver"
	"github.com/lockstep-dev/lockstep/internal/certificates"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/endpoints"
	"github.com/lockstep-dev/lockstep/internal/etcdhealth"
	"github.com/lockstep-dev/lockstep/internal/journal"
	"github.com/lockstep-dev/lockstep/internal/kubeconfig"
	"github.com/lockstep-dev/lockstep/internal/role"
	"github.com/lockstep-dev/lockstep/internal/show"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/internal/turns"
	"github.com/lockstep-dev/lockstep/internal/variables"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/trace"
)

// parts is what New has made so far, for what it makes next. App keeps only what Run starts and stops.
type parts struct {
	cfg      Config
	id       identity
	log      *slog.Logger
	app      *App
	registry *registries
	address  string // of the listener, for other machines; empty: unknown
	trace    trace.Hook
	live     *liveness

	// The files of this node.
	kubeconfig   *kubeconfig.File
	bundle       *bundle.Current
	overrides    *status.Overrides
	certificates *certificates.Watch

	// Etcd, and what is in it.
	etcd     *etcd.Client
	health   *etcdhealth.Watch
	cluster  *cluster.Manager
	schedule *backup.Schedule
	follower *fleet.Follower
	store    *status.Store
	journal  *journal.Journal

	// This node.
	presence  *fleet.Presence
	shown     *event.Value[fleet.Shown] // what the presence contains
	apiserver *apiserver.Follower
	publisher *endpoints.Publisher // nil: without --kubernetes-service
	endpoint  protocol.Endpoint    // the zero Endpoint: without --kubernetes-service
	turns     *turns.Node
	variables *variables.Keeper
	leads     *event.Value[bool] // this node may hold the leader's key
	roles     *role.Server
	clocks    *fleet.Clocks
	reconcile Reconciler
	election  *election.Election
	show      *show.Show
}

// connect creates the parts, each after the parts that it needs. It starts nothing.
func connect(cfg Config, log *slog.Logger) (*parts, error) {
	p := &parts{
		cfg: cfg, id: newIdentity(cfg.NodeID), registry: newRegistries(cfg.Registerer), live: newLiveness(cfg.LeaseTTL),
		shown: event.New(fleet.Shown{}), leads: event.New(false),
	}
	p.log = log.With("node", string(p.id.node))
	p.app = &App{log: p.log, recorder: trace.NewRecorder(recordingSize), registries: p.registry}
	for _, step := range []func() error{
		p.openFiles, p.openEtcd, p.listen, p.wireTrace, p.wireNode, p.wireEndpoints, p.wireRoles,
		p.wireLeader, p.wireShow, p.wireEvents, p.wireServer, p.registry.Err,
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, p.app.release())
		}
	}
	p.addWorkers()
	p.app.ends = append(p.app.ends, p.variables.Close)
	return p, nil
}

// openFiles reads the bundle and the kubeconfig.
func (p *parts) openFiles() error {
	b, err := bundle.Open(p.cfg.Bundle)
	if err != nil {
		return err
	}
	p.bundle = bundle.NewCurrent(p.cfg.Bundle, b, protocol.Local{
		ID: p.cfg.NodeID, ExpireAfter: p.cfg.ExpireDeadNodes, EtcdElectionTimeout: p.cfg.EtcdElectionTimeout, Ephemeral: p.cfg.Ephemeral,
	}, p.log)
	p.overrides = status.NewOverrides(p.cfg.OverrideFile, p.log)
	p.kubeconfig, err = kubeconfig.Open(p.cfg.Kubeconfig, kubeconfig.Local, p.log.With("worker", "kubeconfig"))
	if err != nil {
		return err
	}
	p.app.ends = append(p.app.ends, func() error { p.kubeconfig.Transport().CloseIdleConnections(); return nil })
	p.kubeconfig.Transport().Observe(show.RegisterRequests(p.registry))
	return nil
}

// openEtcd creates the client of etcd, and the manager of the cluster.
func (p *parts) openEtcd() error {
	reach := p.cfg.Etcd
	reach.Log = p.log.With("worker", "etcd")
	var err error
	if p.etcd, err = etcd.NewClient(reach); err != nil {
		return err
	}
	p.app.etcd = p.etcd
	p.etcd.Observe(show.RegisterEtcdRequests(p.registry))
	p.cluster = cluster.NewManager(cluster.Config{
		Embedded: p.cfg.Embedded, Client: p.etcd, Reach: reach, Log: p.log, Registerer: p.registry, AwaitServices: p.awaitServices,
	})
	p.app.cluster = p.cluster
	p.schedule = p.newSchedule()
	p.health = etcdhealth.New(etcdhealth.Config{Client: p.etcd, Cluster: p.cluster, Embedded: p.cfg.Embedded != nil, Log: p.log})
	p.certificates = certificates.New(certificates.Config{
		EtcdCert: p.cfg.Etcd.CertFile, EtcdCA: p.cfg.Etcd.CAFile, Serving: p.cfg.TLS.CertFile, ClientCA: p.cfg.TLS.ClientCAFile,
		Kubeconfig: p.kubeconfig, Issues: p.issues, Joined: p.joined, Log: p.log,
	})
	return nil
}

// listen opens the listener.
func (p *parts) listen() error {
	if p.cfg.Listen != "" {
		l, err := allowance.Listen(p.cfg.Listen)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return fmt.Errorf("open the HTTP API (--listen): %w; if a sidecar of this node runs already, stop that first; another node on this machine needs another address", err)
		case err != nil:
			return fmt.Errorf("open the HTTP API (--listen): %w", err)
		}
		p.app.listener, p.app.url = l, scheme(p.cfg)+"://"+l.Addr().String()
	}
	p.address = address(p.cfg, p.app.listener)
	return nil
}

// recordingSize is the size of the flight recorder in bytes: a day of an idle fleet.
const recordingSize = 8 << 20

// wireTrace sets a hook that passes events to the flight recorder, and to the hook of tests.
func (p *parts) wireTrace() error {
	tests, err := newTrace(p.id.node)
	if err != nil {
		return err
	}
	record := p.app.recorder.Hook()
	p.trace = func(e trace.Event) {
		if recorded() {
			record(e)
		}
		if tests != nil {
			tests(e)
		}
	}
	if dir := cmp.Or(p.dataDir(), p.cfg.DataDir); dir != "" {
		p.app.data, p.app.ownMember = datadir.Layout(dir), p.cfg.Embedded != nil
	}
	return nil
}

// wireNode creates the parts that follow the fleet, the status and the kube-apiserver.
func (p *parts) wireNode() error {
	p.app.supervisor = supervise.New(p.log, p.registry)
	p.follower = fleet.NewFollower(p.etcd)
	p.presence = fleet.NewPresence(fleet.PresenceConfig{
		Client: p.etcd, Node: p.id.node, Instance: p.id.instance, MachineID: p.id.machineID,
		Host: p.id.host, Address: p.address,
		TTL: p.cfg.LeaseTTL, Shown: p.shown, Beat: p.live.beatOf(presenceLoop), Log: p.log.With("worker", "presence"),
	})
	p.store = status.NewStore(p.etcd)
	p.journal = journal.New(journal.Config{Client: p.etcd, Node: p.id.node, Log: p.log.With("worker", "history"), Registerer: p.registry})
	p.apiserver = apiserver.New(apiserver.Config{
		Node: p.id.node, Kubeconfig: p.kubeconfig, Asks: p.cfg.APIServerReadyz, None: p.cfg.Reconciler != nil,
		Local: p.bundle.Local(), Fleet: p.follower.Fleet(),
		ServicesChanged: func() <-chan struct{} { _, changed := p.roles.State().Load(); return changed },
		YieldAfter:      p.cfg.LeaderYieldAfter, Bundle: p.cfg.Bundle, Log: p.log,
	})
	return nil
}

// wireShow creates the part that shows the facts of all others.
func (p *parts) wireShow() error {
	p.show = show.New(show.Config{
		Address: p.address, Bundle: p.cfg.Bundle, OverrideFile: p.cfg.OverrideFile, Etcd: p.cfg.Etcd, DataDir: p.dataDir(),
		Endpoint: p.endpoint, Log: p.log, Facts: p.facts(),
		Rendered: p.roles.Gate().Show, Beat: p.live.beatOf(snapshotLoop), Presence: p.shown, Observe: p.journal.Observe,
	})
	p.app.show = p.show
	p.show.Register(p.registry, p.etcd)
	return nil
}

func (p *parts) facts() show.Facts {
	f := show.Facts{
		Local: p.bundle.Local(), BundleFault: p.bundle.Fault(), Roles: p.roles.Local(), Services: p.roles.Loaded(),
		ServicesProblem: p.roles.Problem(), ServiceState: p.roles.State(), Withheld: p.roles.Withheld(), Servers: p.variables.Missing(),
		APIServer:    p.apiserver,
		Registration: p.roles.Registrar().Registration(), Verdict: p.roles.Gate().Verdict(),
		Override: p.overrides.InForce(), OverrideProblem: p.overrides.Problem(),
		Election: p.election.State(), Reconcile: p.reconcile.Report(), Failures: p.app.supervisor.Failures(),
		Kubeconfig: p.kubeconfig.Warnings(), Certificates: p.certificates.List(), CertificateWarnings: p.certificates.Warnings(),
		Contact: p.etcd.Contact(), EtcdProblem: p.health.Problem(), EtcdFaults: p.health.Faults(),
		Cluster: p.cluster, Schedule: p.schedule.State(), Status: p.store.Observed(), Leader: p.election.Leader(),
		Fleet: p.follower.Fleet(), Store: p.follower.Store(), Rival: p.presence.Rival(), Clocks: p.clocks.State(),
	}
	if p.publisher != nil {
		f.Endpoints = p.publisher.State()
	}
	return f
}

// addWorkers lists the workers that run as long as the API.
func (p *parts) addWorkers() {
	p.keep("liveness", p.live.run)
	p.keep("snapshot", p.show.KeepSnapshot)
	p.keep("status", p.store.Run)
	p.keep("fleet", p.follower.Run)
	p.keep("etcd-servers", p.health.RunFaults)
	p.keep("kubeconfig", p.kubeconfig.Run)
	p.keep("apiserver-version", p.apiserver.RunVersion)
	p.keep("other-apiserver", p.apiserver.RunOther)
	p.keep("certificates", p.certificates.Run)
	p.keep("check", func(ctx context.Context) error { return p.etcd.KeepChecking(ctx, p.cfg.LeaseTTL) })
	p.keep("bundle", p.bundle.Run)
	p.keep("digests", p.show.LogDigests)
	p.keep("warnings", p.show.KeepWarnings)
	p.keep("clocks", p.clocks.Run)
	p.keep("override", p.overrides.Run)
	p.keep("happenings", p.show.KeepHistory)
	p.keep("history", p.journal.Run)
	p.keep("etcd-problem", p.health.RunProblem)
	if p.cfg.Embedded != nil {
		p.keep("servers", p.cluster.InCluster(p.variables.RunServers))
		p.keep("member-health", p.cluster.RunHealth)
		p.keep("snapshots", p.cluster.InCluster(p.keepSnapshots))
	}
	p.keep("turns", p.cluster.InCluster(p.turns.KeepCommands))
	if p.publisher != nil {
		p.keep("endpoints", p.publisher.Run)
	}
	if p.cfg.APIServerReadyz {
		p.keep("apiserver", p.apiserver.RunReadyz)
	}
}

// keep adds a worker.
func (p *parts) keep(name string, run supervise.Worker) {
	p.app.workers = append(p.app.workers, worker{name, run})
}
