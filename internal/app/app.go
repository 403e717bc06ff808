package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/apiserver"
	"github.com/lockstep-dev/lockstep/internal/certificates"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
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

// App is the whole sidecar: the parts that New made, of which a part finds those that it needs.
type App struct {
	cfg      Config
	id       identity
	log      *slog.Logger
	registry *registries
	listener net.Listener // nil: the HTTP API is served only through Handler
	url      string       // of the listener on this machine; empty: there is none
	address  string       // of the listener, for other machines; empty: unknown
	recorder *trace.Recorder
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
	server    *httpapi.Server

	supervisor *supervise.Supervisor
	workers    []worker       // they follow the facts that the API shows
	ends       []func() error // close what the workers used, after all have ended
	used       atomic.Bool    // Run or Close was called
}

// worker is a part that runs as long as the API.
type worker struct {
	name string
	run  supervise.Worker
}

// New creates the parts, each after the parts that it needs. It reads the bundle, the kubeconfig and the certificates, and
// opens the listener. It starts nothing. The caller must call Run or Close.
func New(cfg Config, log *slog.Logger) (*App, error) {
	a := &App{
		cfg: cfg, id: newIdentity(cfg.NodeID), registry: newRegistries(cfg.Registerer), live: newLiveness(cfg.LeaseTTL),
		shown: event.New(fleet.Shown{}), leads: event.New(false), recorder: trace.NewRecorder(recordingSize),
	}
	a.log = log.With("node", string(a.id.node))
	for _, step := range []func() error{
		a.openFiles, a.openEtcd, a.listen, a.wireTrace, a.wireNode, a.wireEndpoints, a.wireRoles,
		a.wireLeader, a.wireShow, a.wireServer, a.registry.Err,
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, a.release())
		}
	}
	a.addWorkers()
	a.ends = append(a.ends, a.variables.Close)
	return a, nil
}

// URL returns the URL of the listener on this machine; empty without a listener.
func (a *App) URL() string { return a.url }

// Handler returns the HTTP API.
func (a *App) Handler() http.Handler { return a.server.Handler() }

// Verdict returns the gate's verdict, which only the gate sets.
func (a *App) Verdict() *event.Value[status.Verdict] { return a.roles.Gate().Verdict() }

// Ready reports whether the gate is open now, as /readyz shows it.
func (a *App) Ready() bool { return a.show.Snapshot().Get().Gate.Verdict.Ready }

// WaitReady waits until the gate is open and /readyz shows it. It returns the errors of
// status.Gate.WaitReady.
func (a *App) WaitReady(ctx context.Context) error {
	gate := a.roles.Gate()
	if err := gate.WaitReady(ctx); err != nil {
		return err
	}
	return gate.WaitShown(ctx)
}

// Close closes the listener and the etcd client of New, if Run was not called.
func (a *App) Close() error {
	if !a.used.CompareAndSwap(false, true) {
		return nil
	}
	a.roles.Gate().Stop() // WaitReady would wait forever
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
	a.registry.release()
	return errors.Join(errs...)
}
