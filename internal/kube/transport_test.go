package kube

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// plugin acts like a credential plugin: it holds each request until it is released,
// and takes no notice of the request's context.
type plugin struct {
	next    http.RoundTripper
	reached chan struct{} // has one value for each request that waits
	release chan struct{} // closed: all go on
}

func (p *plugin) RoundTrip(req *http.Request) (*http.Response, error) {
	p.reached <- struct{}{}
	<-p.release
	return p.next.RoundTrip(req)
}

// newPluginClient returns a client with a plugin that hangs, and the number of
// requests that its server got.
func newPluginClient(t *testing.T) (*Client, *plugin, *atomic.Int64) {
	t.Helper()
	served := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = w.Write([]byte(`{"apiVersion":"x.test/v1","kind":"Thing","metadata":{"name":"a"}}`))
	}))
	t.Cleanup(server.Close)
	transport, err := NewTransport(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	now := transport.current.Load()
	p := &plugin{next: now.next, reached: make(chan struct{}, 2*maxHanging), release: make(chan struct{})}
	transport.current.Store(&credentials{base: now.base, next: p})
	c, err := New(transport.Config(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c, p, served
}

// A request whose credentials do not arrive ends with its context, and is not sent
// when they arrive later.
func TestTransport_pluginHangs(t *testing.T) {
	c, p, served := newPluginClient(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.Get(ctx, things, "n", "a")
		failed <- err
	}()
	<-p.reached
	enough := errors.New("enough")
	cancel(enough)
	var err error
	select {
	case err = <-failed:
	case <-time.After(time.Minute):
		close(p.release)
		t.Fatal("the request does not end with its context")
	}
	var transport *TransportError
	if !errors.As(err, &transport) || !transport.Unsent || !errors.Is(err, enough) {
		t.Errorf("got %v, want a TransportError that was never sent, because of %v", err, enough)
	}
	close(p.release)
	awaitNone(t, c)
	if n := served.Load(); n != 0 {
		t.Errorf("the server got %d requests that were given up before they were sent", n)
	}
	if _, err := c.Get(t.Context(), things, "n", "a"); err != nil || served.Load() != 1 {
		t.Errorf("got %v and %d requests, want the next request to work", err, served.Load())
	}
}

// awaitNone waits until no request hangs.
func awaitNone(t *testing.T, c *Client) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for c.transport.hanging.Load() > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests still hang", c.transport.hanging.Load())
		}
		runtime.Gosched() // nothing says when a goroutine has ended
	}
}

// However long a plugin hangs, the requests that wait for it are bounded.
func TestTransport_hangingRequestsAreBounded(t *testing.T) {
	c, p, served := newPluginClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, maxHanging)
	for range maxHanging {
		go func() {
			_, err := c.Get(ctx, things, "n", "a")
			failed <- err
		}()
	}
	for range maxHanging {
		<-p.reached
	}
	cancel()
	for range maxHanging {
		if err := <-failed; err == nil {
			t.Error("got no error for a request that was given up")
		}
	}
	_, err := c.Get(t.Context(), things, "n", "a")
	if transport, is := errors.AsType[*TransportError](err); !is || !transport.Unsent {
		t.Errorf("got %v, want a TransportError that was never sent", err)
	}
	close(p.release)
	awaitNone(t, c)
	if _, err := c.Get(t.Context(), things, "n", "a"); err != nil || served.Load() != 1 {
		t.Errorf("got %v and %d requests, want the next request to work", err, served.Load())
	}
}

// A request that was sent may have taken effect when its context ends.
func TestTransport_sentAndGivenUp(t *testing.T) {
	began := make(chan struct{})
	c := newClient(t, func(_ http.ResponseWriter, req *http.Request) {
		close(began)
		<-req.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	_, err := c.Get(ctx, things, "n", "a")
	var transport *TransportError
	if !errors.As(err, &transport) || transport.Unsent || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a TransportError that may have taken effect", err)
	}
}

// Requests use the newest credentials and address.
func TestTransport_use(t *testing.T) {
	var servers [2]*httptest.Server
	seen := make(chan string, 2)
	for i := range servers {
		servers[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			seen <- req.Host + " " + req.Header.Get("Authorization")
			_, _ = w.Write([]byte(`{"apiVersion":"x.test/v1","kind":"Thing","metadata":{"name":"a"}}`))
		}))
		t.Cleanup(servers[i].Close)
	}
	transport, err := NewTransport(&rest.Config{Host: servers[0].URL, BearerToken: "first\n"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(transport.Config(), "")
	if err != nil {
		t.Fatal(err)
	}
	for i, token := range []string{"first", "second"} {
		if i > 0 {
			if err := transport.Use(&rest.Config{Host: servers[i].URL, BearerToken: token}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Get(t.Context(), things, "n", "a"); err != nil {
			t.Fatal(err)
		}
		if got, want := <-seen, servers[i].Listener.Addr().String()+" Bearer "+token; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := transport.Use(&rest.Config{Host: "https://x", TLSClientConfig: rest.TLSClientConfig{CAFile: "/nonexistent"}}); err == nil {
		t.Error("got no error for a file that does not exist")
	}
	if _, err := c.Get(t.Context(), things, "n", "a"); err != nil {
		t.Errorf("after credentials that cannot be used: got %v, want the last ones to stay in use", err)
	}
	<-seen
}
