// Package lockstep runs a Lockstep sidecar inside another program: an agent of a
// Kubernetes distribution that already runs on every control plane node, for
// example. The command cmd/sidecar is built on it.
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
// This package owns the options and their defaults, and openapi.yaml. All wiring
// is in internal/app. New starts nothing; Run owns all goroutines and waits for
// them. A program may run several sidecars, each with its own node ID.
package lockstep

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/lockstep-dev/lockstep/internal/app"
)

// Sidecar is one sidecar. Its methods may be called from many goroutines.
type Sidecar struct{ app *app.App }

// New checks the options, reads the bundle, the kubeconfig and the certificates,
// and opens the listener. It starts nothing and sends no request to etcd or
// Kubernetes. Call Run next, or Close. Errors about options are *OptionError. A
// nil log discards everything.
func New(opts Options, log *slog.Logger) (*Sidecar, error) {
	cfg, err := opts.config()
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a, err := app.New(cfg, log)
	if err != nil {
		return nil, err
	}
	return &Sidecar{app: a}, nil
}

// Run runs the sidecar until ctx ends, stops it gracefully, and returns nil: the
// gate closes first, then the node stops leading, then Options.ShutdownDelay
// passes, during which the HTTP API still answers, then its Services stop, then an Ephemeral node waits until
// its kube-apiserver has stopped, and deletes its record. An error says why the sidecar
// could not go on, and is meant for people. Run may be called once.
func (s *Sidecar) Run(ctx context.Context) error { return s.app.Run(ctx) }

// WaitReady returns nil when the gate opens: from then on this node's
// kube-apiserver may serve. It returns the error of ctx if ctx ends first, and
// an error that wraps status.ErrClosed if the sidecar stops first. It may be
// called before Run. The gate can close again: follow Ready, or /readyz.
func (s *Sidecar) WaitReady(ctx context.Context) error { return s.app.WaitReady(ctx) }

// Ready reports whether the gate is open now. /readyz says the same, and with
// Options.APIServerReadyz also checks the kube-apiserver. It is false before Run
// and after it.
func (s *Sidecar) Ready() bool { return s.app.Ready() }

// Handler returns the HTTP API, to be served by the program's own server beside
// or instead of the listener at Options.Listen. It expects to be at the root:
// mount it elsewhere with http.StripPrefix. It answers before, during and after
// Run; /readyz fails before and after it. Client certificates are required only
// as Options.ClientCAFile says; who else may read the API is up to the program.
func (s *Sidecar) Handler() http.Handler { return s.app.Handler() }

// URL returns the URL of the listener on this machine; empty without one.
func (s *Sidecar) URL() string { return s.app.URL() }

// Close releases what New opened if Run is not called. After that, Run returns
// an error. Once Run has been called, Close does nothing: Run releases it.
func (s *Sidecar) Close() error { return s.app.Close() }
