// Package lockstep runs a Lockstep sidecar inside another program: for example, in an agent of a
// Kubernetes distribution that already runs on every control plane node. The command cmd/sidecar is
// built on it.
//
//	sidecar, err := lockstep.New(lockstep.Options{
//		Kubeconfig: "/etc/kubernetes/admin.conf", Bundle: "/usr/share/platform/bundle",
//	}, log)
//	if err != nil {
//		return err
//	}
//	mux.Handle("/lockstep/", http.StripPrefix("/lockstep", sidecar.Handler()))
//	go func() { ended <- sidecar.Run(ctx) }()
//	if err := sidecar.WaitReady(ctx); err != nil {
//		return err
//	}
//	// This node's kube-apiserver may serve now.
//
// This package owns the options and their defaults, and openapi.yaml. Package internal/app wires
// the parts. New starts nothing; Run owns all goroutines and waits for them. A program may run
// several sidecars, each with its own node ID.
package lockstep

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/app"
	"github.com/lockstep-dev/lockstep/status"
)

// Sidecar is one sidecar. Its methods may be called from many goroutines.
type Sidecar struct{ app *app.App }

// New checks the options, reads the bundle, the kubeconfig and the certificates, and opens the
// listener. It starts nothing and sends no request to etcd or Kubernetes. Call Run or Close next.
// Errors about options are *OptionError. A nil log discards everything.
func New(opts Options, log *slog.Logger) (*Sidecar, error) {
	cfg, err := opts.config()
	if err != nil {
		return nil, err
	}
	a, err := app.New(cfg, cmp.Or(log, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	return &Sidecar{app: a}, nil
}

// Run runs the sidecar until ctx ends, stops it gracefully, and returns nil. To stop, it closes the
// gate, gives up the leadership, waits for Options.ShutdownDelay, during which the HTTP API still
// answers, and stops the Services. For an Ephemeral node it then waits until the kube-apiserver has
// stopped, and deletes the record. An error explains to people why the sidecar could not continue.
// Run may be called once.
func (s *Sidecar) Run(ctx context.Context) error { return s.app.Run(ctx) }

// WaitReady returns nil when the gate opens: from then on this node's
// kube-apiserver may serve. It returns the error of ctx if ctx ends first, and
// an error that wraps status.ErrClosed if the sidecar stops first. It may be
// called before Run. The gate can close again: follow Verdict.
func (s *Sidecar) WaitReady(ctx context.Context) error { return s.app.WaitReady(ctx) }

// Ready reports whether the gate is open now. /readyz reports the same, and with
// Options.APIServerReadyz also checks the kube-apiserver. Ready is false before Run and after it.
func (s *Sidecar) Ready() bool { return s.app.Ready() }

// Verdict returns the decision of the gate, with its reason and the time at which that began, for a program that
// also acts when the gate closes: Load it, act, and wait for its channel (package event). /readyz
// follows within a moment. Only the sidecar may Set it.
func (s *Sidecar) Verdict() *event.Value[status.Verdict] { return s.app.Verdict() }

// Handler returns the HTTP API, to be served by the program's own server beside or instead of the
// listener at Options.Listen. It expects to be at the root: mount it elsewhere with
// http.StripPrefix. It answers before, during and after Run; /readyz fails before and after it. It
// requires client certificates only if Options.ClientCAFile is set; the program decides who else
// may read the API.
func (s *Sidecar) Handler() http.Handler { return s.app.Handler() }

// URL returns the URL of the listener on this machine; empty without one.
func (s *Sidecar) URL() string { return s.app.URL() }

// Close releases the resources of New if Run is never called. After Close, Run returns an error.
// After a call of Run, Close does nothing: Run releases the resources.
func (s *Sidecar) Close() error { return s.app.Close() }
