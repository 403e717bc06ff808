package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/endpoints"
	"github.com/lockstep-dev/lockstep/internal/events"
	"github.com/lockstep-dev/lockstep/internal/journal"
	"github.com/lockstep-dev/lockstep/internal/role"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/internal/trusted"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/trace"
)

// App is the whole sidecar.
type App struct {
	cfg      Config
	id       identity
	log      *slog.Logger
	listener net.Listener // nil: the HTTP API is served only through Handler
	address  string
	used     atomic.Bool // Run or Close was called
	trace    trace.Hook  // reports to the recorder, and to the hook of tests that built this program
	recorder *trace.Recorder

	kubeconfig          *kubeconfig
	reviewKubeconfigs   []*kubeconfig // the kubeconfigs of Config.Reviews, except kubeconfig
	certificates        *event.Value[[]report.Certificate]
	certificateWarnings *event.Value[[]string]
	local               *event.Value[protocol.Local]
	bundle              *event.Value[*bundle.Bundle]
	// bundleProblem is why the current bundle directory was rejected; empty: it was not.
	bundleProblem *event.Value[string]
	bundleFault   *event.Value[error] // the error behind bundleProblem; nil: none
	// override is the override in force; overrideProblem is why its file is invalid.
	override        *event.Value[protocol.Override]
	overrideProblem *event.Value[string]

	// memberHealth contains the warnings about this node's etcd member.
	memberHealth *event.Value[memberWarnings]
	clocks       *event.Value[clockState]

	etcd       *etcd.Client
	cluster    *cluster.Manager
	schedule   *backup.Schedule // the schedule of snapshots; it runs only with --snapshot-every
	follower   *fleet.Follower
	presence   *fleet.Presence
	shown      *event.Value[fleet.Shown]
	supervisor *supervise.Supervisor
	roles      *role.Server
	variables  *event.Value[service.Variables]
	lock       *datadir.Dir                 // locks the data directory, if no member locks it; only "roles" writes it
	shownGate  *event.Value[status.Verdict] // the gate's verdict in the snapshot
	leads      *event.Value[bool]           // this node may hold the leader's key
	registrar  *fleet.Registrar
	store      *status.Store
	gate       *status.Gate
	journal    *journal.Journal
	events     *events.Events       // nil: none are written
	publisher  *endpoints.Publisher // nil: without --kubernetes-service
	endpoint   protocol.Endpoint    // the zero Endpoint: without --kubernetes-service
	reconcile  Reconciler
	election   *election.Election

	apiserver *event.Value[httpapi.APIServer]
	version   *event.Value[string] // of the kube-apiserver; empty: not known yet
	// otherAPIServer is why the version of the kube-apiserver keeps this node from registering; empty:
	// it does not. keepOtherAPIServer writes it.
	otherAPIServer *event.Value[string]
	etcdFaults     *event.Value[[]string]
	etcdProblem    *event.Value[etcdProblem]
	warned         *event.Value[warned]
	seen           *event.Value[sightings] // keepWarnings writes it

	// apiserverShown is the damped apiserver that other nodes see. The damper belongs to the goroutine
	// that polls.
	apiserverShown *event.Value[httpapi.APIServer]
	damper         damper
	turnAnswers    *event.Value[turnAnswers]
	serviceTurn    *event.Value[role.Turn]
	noService      outOfService // since when this node does not serve; only keepServiceTurns uses it
	live           *liveness
	snapshot       *event.Value[httpapi.Snapshot]
	server         *httpapi.Server
	registries     *registries
}

// New reads the bundle, the kubeconfig and the certificates, and opens the listener. It starts
// nothing. The caller must call Run or Close.
func New(cfg Config, log *slog.Logger) (*App, error) {
	b, err := bundle.Open(cfg.Bundle)
	if err != nil {
		return nil, err
	}
	id := newIdentity(cfg.NodeID)
	log = log.With("node", string(id.node))
	if problem := trusted.Problem(cfg.Bundle); problem != "" && cfg.Bundle != bundle.BuiltinName {
		log.Warn("others can change the bundle, and with it what this sidecar writes into the cluster", "problem", problem)
	}
	file, err := newKubeconfig(cfg.Kubeconfig, log.With("worker", "kubeconfig"))
	if err != nil {
		return nil, err
	}
	a := &App{
		cfg: cfg, id: id, log: log, kubeconfig: file, bundle: event.New(b),

		certificates: event.New[[]report.Certificate](nil), certificateWarnings: event.New[[]string](nil),

		bundleProblem: event.New(""), bundleFault: event.New[error](nil),
		override: event.New(protocol.Override{}), overrideProblem: event.New(""),
		memberHealth:   event.New(memberWarnings{}),
		clocks:         event.New(clockState{}),
		local:          event.New(localOf(cfg, b)),
		shown:          event.New(fleet.Shown{}),
		apiserver:      event.New(httpapi.APIServer{Enabled: cfg.APIServerReadyz}),
		version:        event.New(""),
		etcdFaults:     event.New[[]string](nil),
		etcdProblem:    event.New(etcdProblem{}),
		warned:         event.New(warned{}),
		seen:           event.New(sightings{}),
		apiserverShown: event.New(httpapi.APIServer{Enabled: cfg.APIServerReadyz}),
		turnAnswers:    event.New(turnAnswers{}),
		serviceTurn:    event.New(role.Turn{}),
		live:           newLiveness(cfg.LeaseTTL),
		shownGate:      event.New(status.Verdict{}),
		leads:          event.New(false),
	}
	a.otherAPIServer = event.New(a.apiserverProblem())
	if err := a.wire(); err != nil {
		return nil, errors.Join(err, a.release())
	}
	return a, nil
}

// localOf returns the description of this node while it runs with b.
func localOf(cfg Config, b *bundle.Bundle) protocol.Local {
	local := b.Local()
	local.ID, local.FenceAfter, local.EtcdElectionTimeout = cfg.NodeID, cfg.ExpireDeadNodes, cfg.EtcdElectionTimeout
	local.Ephemeral = cfg.Ephemeral
	return local
}

// wire creates the parts, each after the parts that it needs.
func (a *App) wire() error {
	var err error
	reach := a.cfg.Etcd
	reach.Log = a.log.With("worker", "etcd")
	if a.etcd, err = etcd.NewClient(reach); err != nil {
		return err
	}
	if a.cfg.Listen != "" {
		if a.listener, err = allowance.Listen(a.cfg.Listen); err != nil {
			return fmt.Errorf("open the HTTP API (--listen): %w", err)
		}
	}
	registry := newRegistries(a.cfg.Registerer)
	a.registries = registry
	a.cluster = cluster.NewManager(cluster.Config{
		Embedded: a.cfg.Embedded, Client: a.etcd, Reach: reach, Log: a.log, Registerer: registry, AwaitServices: a.awaitServices,
	})
	a.schedule = a.newSchedule()
	a.readCertificates(time.Now())
	a.address = address(a.cfg, a.listener)
	hook, err := newTrace(a.id.node)
	if err != nil {
		return err
	}
	a.record(hook)
	a.supervisor = supervise.New(a.log, registry)
	a.wireFleet()
	if err := a.wireService(registry); err != nil {
		return err
	}
	if err := a.wireRoles(registry); err != nil {
		return err
	}
	if err := a.wireLeader(registry); err != nil {
		return err
	}
	if err := a.wireEvents(); err != nil {
		return err
	}
	a.registerMetrics(registry)
	a.kubeconfig.transport.Observe(registerRequests(registry).answered)
	a.etcd.Observe(registerEtcdRequests(registry))
	return errors.Join(a.wireServer(registry), registry.Err())
}

func (a *App) wireFleet() {
	a.follower = fleet.NewFollower(a.etcd)
	a.presence = fleet.NewPresence(fleet.PresenceConfig{
		Client: a.etcd, Node: a.id.node, Instance: a.id.instance, MachineID: a.id.machineID,
		Host: a.id.host, Address: a.address,
		TTL: a.cfg.LeaseTTL, Shown: a.shown, Beat: a.live.beatOf(presenceLoop), Log: a.log.With("worker", "presence"),
	})
	a.store = status.NewStore(a.etcd)
	a.journal = journal.New(journal.Config{Client: a.etcd, Node: a.id.node, Log: a.log.With("worker", "history")})
}

func (a *App) wireLeader(registry prometheus.Registerer) error {
	var err error
	if a.reconcile, err = a.newReconciler(registry); err != nil {
		return err
	}
	a.election = election.New(election.Config{
		Client: a.etcd, Store: a.store, Local: a.local, Fleet: a.follower.Fleet(),
		StoreKey: a.follower.Store(), Applier: a.reconcile,
		TTL: a.cfg.LeaseTTL, ResyncInterval: a.cfg.ResyncInterval, YieldAfter: a.cfg.LeaderYieldAfter, APIProblem: a.apiProblem,
		MayLead: a.leads,
		Log:     a.log.With("worker", "election"), Registerer: registry, Trace: a.trace,
	})
	return nil
}

func (a *App) newReconciler(registry prometheus.Registerer) (Reconciler, error) {
	if a.cfg.Reconciler != nil {
		return a.cfg.Reconciler, nil
	}
	r, err := reconcile.New(reconcile.Config{
		RESTConfig: a.kubeconfig.transport.Config(), UserAgent: "lockstep/" + buildinfo.Get().Version,
		Bundle: a.bundle, Concurrency: a.cfg.ApplyConcurrency,
		AllowMassPrune: a.cfg.AllowMassPrune, Log: a.log, Registerer: registry,
	})
	return applier{r}, err
}

func (a *App) wireServer(registry *registries) error {
	a.snapshot = event.New(a.snapshotNow())
	reviewer, err := a.newReviewer(registry)
	if err != nil {
		return err
	}
	a.server, err = httpapi.New(httpapi.Config{
		Snapshot: a.snapshot, Log: a.log, Registerer: registry,
		Metrics:       promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		MemberMetrics: a.memberMetrics(), Profiling: a.cfg.Profiling,
		Build:   httpapi.Build(buildinfo.Get()),
		Flags:   a.cfg.Flags,
		OpenAPI: a.cfg.OpenAPI,
		TLS:     a.cfg.TLS,
		Reviews: reviewer, AlwaysAllowPaths: a.cfg.Reviews.AlwaysAllowPaths,
		// Without a listener, the program that mounts the handler decides.
		LocalOnly: a.cfg.Listen != "" && !a.cfg.AnonymousStatus,
		Hosts:     a.hosts(),
		Stuck:     a.live.stuck,
		History:   a.journal.Read,
		Recording: a.recorder.WriteTo,
		FleetLock: fleetLock{a},
	})
	return err
}

// hosts returns the names by which clients may call the listener; nil: there is no listener, and
// the program that mounts the handler knows its names.
func (a *App) hosts() []string {
	if a.cfg.Listen == "" {
		return nil
	}
	out := []string{strings.ToLower(a.id.host)}
	if short, _, cut := strings.Cut(out[0], "."); cut {
		out = append(out, short)
	}
	if u, err := url.Parse(a.cfg.AdvertiseURL); err == nil {
		out = append(out, strings.ToLower(u.Hostname()))
	}
	if host, _, err := net.SplitHostPort(a.cfg.Listen); err == nil {
		out = append(out, strings.ToLower(host))
	}
	return out
}

// URL returns the URL of the listener on this machine; empty without a listener.
func (a *App) URL() string {
	if a.listener == nil {
		return ""
	}
	return scheme(a.cfg) + "://" + a.listener.Addr().String()
}

// Handler returns the HTTP API.
func (a *App) Handler() http.Handler { return a.server.Handler() }

// Verdict returns the gate's verdict, which only the gate sets.
func (a *App) Verdict() *event.Value[status.Verdict] { return a.gate.Verdict() }

// Ready reports whether the gate is open now, as /readyz shows it.
func (a *App) Ready() bool { return a.snapshot.Get().Gate.Verdict.Ready }

// WaitReady waits until the gate is open and /readyz shows it. It returns the errors of
// status.Gate.WaitReady.
func (a *App) WaitReady(ctx context.Context) error {
	if err := a.gate.WaitReady(ctx); err != nil {
		return err
	}
	return a.awaitShown(ctx)
}

// awaitShown waits until the snapshot contains the gate's verdict.
func (a *App) awaitShown(ctx context.Context) error {
	for {
		shown, snapshotChanged := a.snapshot.Load()
		if shown.Gate.Verdict.Reason == a.gate.Verdict().Get().Reason {
			return nil
		}
		if !event.Wait(ctx, snapshotChanged) {
			return ctx.Err()
		}
	}
}

// Close closes the listener and the etcd client of New, if Run was not called.
func (a *App) Close() error {
	if !a.used.CompareAndSwap(false, true) {
		return nil
	}
	a.gate.Stop() // WaitReady would wait forever
	return a.release()
}

func (a *App) release() error {
	var errs []error
	if a.listener != nil {
		errs = append(errs, a.listener.Close())
	}
	if a.etcd != nil {
		errs = append(errs, a.etcd.Close())
	}
	if a.registries != nil {
		a.registries.release()
	}
	return errors.Join(errs...)
}
