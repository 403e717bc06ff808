package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Transport sends requests to one kube-apiserver, with credentials that can be
// replaced while it is in use. A request ends with its context, also while a
// credential plugin of the kubeconfig hangs: client-go runs the plugin without a
// context. The goroutine of such a request ends with the plugin, and there are at
// most maxHanging of them.
type Transport struct {
	current atomic.Pointer[credentials]
	observe atomic.Pointer[Observer]
	hanging atomic.Int64 // requests that their callers gave up, and that still run
}

// Observer gets the method of each request, the status code of its answer (0: there was none), and how
// long that took.
type Observer func(method string, code int, took time.Duration)

// Observe makes o get all requests from now on.
func (t *Transport) Observe(o Observer) { t.observe.Store(&o) }

// observed passes on how a request ended.
func (t *Transport) observed(req *http.Request, begin time.Time, resp *http.Response) {
	if o := t.observe.Load(); o != nil {
		code := 0
		if resp != nil {
			code = resp.StatusCode
		}
		(*o)(req.Method, code, time.Since(begin))
	}
}

// credentials are the contents of one version of the kubeconfig.
type credentials struct {
	base *url.URL
	next http.RoundTripper
}

// maxHanging bounds the requests that still run although their context ended. It is more than
// the leader sends at once.
const maxHanging = 64

// receiveBuffer bounds the bytes that the connection reads ahead of an answer. The default is 4
// MiB for each request: a list of large objects would take that much, and the garbage collector
// twice that.
const receiveBuffer = 256 << 10

// NewTransport returns a transport for the kube-apiserver of cfg. It reads the files that cfg
// names, once: Use replaces their contents. It does not connect. Rate limits and the timeout of
// cfg do not apply.
func NewTransport(cfg *rest.Config) (*Transport, error) {
	t := &Transport{}
	return t, t.Use(cfg)
}

// Use makes requests from now on use cfg. Those under way are not disturbed. After an error,
// nothing changed.
func (t *Transport) Use(cfg *rest.Config) error {
	own := rest.CopyConfig(cfg)
	own.Timeout = 0 // each request sets its own
	base, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return fmt.Errorf("kube-apiserver address: %w", err)
	}
	if err := inline(own); err != nil {
		return fmt.Errorf("kube-apiserver credentials: %w", err)
	}
	if own.Proxy == nil {
		own.Proxy = http.ProxyFromEnvironment
	}
	inner := own.WrapTransport
	own.WrapTransport = func(connection http.RoundTripper) http.RoundTripper {
		bound(connection)
		if inner != nil {
			connection = inner(connection)
		}
		return sender{connection}
	}
	next, err := rest.TransportFor(own)
	if err != nil {
		return fmt.Errorf("kube-apiserver transport: %w", err)
	}
	if old := t.current.Swap(&credentials{base: base, next: next}); old != nil {
		utilnet.CloseIdleConnectionsFor(old.next)
	}
	return nil
}

// bound bounds the bytes that connections read ahead. Nothing else uses the transport yet.
func bound(connection http.RoundTripper) {
	if t, isTransport := connection.(*http.Transport); isTransport {
		t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: receiveBuffer}
	}
}

// inline replaces the names of files by their content. So client-go starts no
// goroutine that reads them again.
func inline(cfg *rest.Config) error {
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return err
	}
	cfg.CAFile, cfg.CertFile, cfg.KeyFile = "", "", ""
	if cfg.BearerToken = strings.TrimSpace(cfg.BearerToken); cfg.BearerToken != "" {
		cfg.BearerTokenFile = ""
	}
	return nil
}

// Base returns the URL of the kube-apiserver.
func (t *Transport) Base() *url.URL { return t.current.Load().base }

// Config returns a configuration that sends requests with t.
func (t *Transport) Config() *rest.Config { return &rest.Config{Host: t.Base().String(), Transport: t} }

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(t.current.Load().next) }

// answer is the result of a RoundTripper.
type answer struct {
	resp *http.Response
	err  error
}

// RoundTrip sends a request. If the context of the request ends before it was
// handed over to the connection, the error is an *unsentError, and the request is
// never sent.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, begin := req.Context(), time.Now()
	if n := t.hanging.Load(); n >= maxHanging {
		return nil, refuse(req, fmt.Errorf("%d earlier requests hang", n))
	}
	state, givenUp, answered := &handover{}, make(chan struct{}), make(chan answer)
	next, own := t.current.Load().next, req.WithContext(context.WithValue(ctx, handoverKey{}, state))
	go func() {
		resp, err := next.RoundTrip(own)
		select {
		case answered <- answer{resp, err}:
		case <-givenUp:
			if err == nil {
				_ = resp.Body.Close() // the caller does not read it
			}
			t.hanging.Add(-1)
		}
	}()
	select {
	case a := <-answered:
		t.observed(req, begin, a.resp)
		return a.resp, a.err
	case <-ctx.Done():
		t.observed(req, begin, nil)
		t.hanging.Add(1)
		close(givenUp)
		if state.withdraw() {
			return nil, &unsentError{err: context.Cause(ctx)}
		}
		return nil, context.Cause(ctx)
	}
}

// refuse returns the error of a request that is not sent.
func refuse(req *http.Request, err error) error {
	if req.Body != nil {
		_ = req.Body.Close() // which a RoundTripper must do
	}
	return &unsentError{err: err}
}

// unsentError is the error of a request that was never handed over to a connection.
type unsentError struct{ err error }

// Error names the cause that is left: nothing but the credentials comes before the
// connection.
func (e *unsentError) Error() string {
	return "not sent, since the credentials of the kubeconfig were not available in time (does its exec plugin hang?): " + e.err.Error()
}

// Unwrap returns the cause.
func (e *unsentError) Unwrap() error { return e.err }

// handover is whether a request was handed over to the connection, or withdrawn. It
// is never both.
type handover struct{ state atomic.Int32 }

const (
	handedOver = iota + 1
	withdrawn
)

type handoverKey struct{}

// send reports whether the request may be handed over now.
func (h *handover) send() bool {
	return h.state.CompareAndSwap(0, handedOver) || h.state.Load() == handedOver
}

// withdraw reports whether the request was not handed over, and never will be.
func (h *handover) withdraw() bool { return h.state.CompareAndSwap(0, withdrawn) }

// sender is the last step before the connection, below all that adds credentials.
type sender struct{ next http.RoundTripper }

// RoundTrip sends the request, unless its caller gave it up.
func (s sender) RoundTrip(req *http.Request) (*http.Response, error) {
	if state, found := req.Context().Value(handoverKey{}).(*handover); found && !state.send() {
		return nil, refuse(req, context.Cause(req.Context()))
	}
	return s.next.RoundTrip(req)
}

// WrappedRoundTripper lets client-go close idle connections.
func (s sender) WrappedRoundTripper() http.RoundTripper { return s.next }
