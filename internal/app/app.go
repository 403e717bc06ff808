package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/role"
	"github.com/lockstep-dev/lockstep/internal/show"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/trace"
)

// App is the whole sidecar.
type App struct {
	log      *slog.Logger
	url      string       // of the listener on this machine; empty: there is none
	listener net.Listener // nil: the HTTP API is served only through Handler
	used     atomic.Bool  // Run or Close was called

	etcd       *etcd.Client
	cluster    *cluster.Manager
	roles      *role.Server
	show       *show.Show
	server     *httpapi.Server
	supervisor *supervise.Supervisor
	registries *registries
	workers    []worker       // they follow the facts that the API shows
	ends       []func() error // close what the workers used, after all have ended
	recorder   *trace.Recorder
	// data is the directory for the recording of a sidecar that ends by an error; empty: none. ownMember: it has this node's
	// etcd member.
	data      datadir.Layout
	ownMember bool
}

// worker is a part that runs as long as the API.
type worker struct {
	name string
	run  supervise.Worker
}

// New reads the bundle, the kubeconfig and the certificates, and opens the listener. It starts
// nothing. The caller must call Run or Close.
func New(cfg Config, log *slog.Logger) (*App, error) {
	p, err := connect(cfg, log)
	if err != nil {
		return nil, err
	}
	return p.app, nil
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
	if a.registries != nil {
		a.registries.release()
	}
	return errors.Join(errs...)
}
