package upgrade

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// clients read an object all the time, as if behind a load balancer that requests /readyz of the
// sidecars, and leads new connections to nodes whose gate is open. Half of the clients keep one
// connection, the others dial for each request.
type clients struct {
	walk    *Walk
	tls     *tls.Config
	url     string
	open    [NodeCount]atomic.Bool // the gates, as they were observed last
	next    atomic.Uint32          // at which node the next connection begins to look
	started chan struct{}          // closed when the clients may begin
	excused atomic.Bool            // failures do not count: a node was killed

	mu     sync.Mutex // mu guards the fields below
	sent   int
	failed []error // the first ones
}

const (
	clientCount   = 4
	clientPause   = 100 * time.Millisecond
	gateInterval  = 100 * time.Millisecond
	gateTimeout   = time.Second
	clientTimeout = 15 * time.Second
	maxFailures   = 10
	settingsPath  = "/api/v1/namespaces/platform/configmaps/settings"
)

// shutdownDelay is how long a node serves on when it is about to stop. It must be
// longer than the clients need to notice that.
var shutdownDelay = 500 * time.Millisecond

// newClients returns clients that begin to send requests after begin.
func newClients(w *Walk) (*clients, error) {
	api := w.cfg.Cluster.APIConfig(w.nodes[0].apiURL())
	config, err := rest.TLSConfigFor(api)
	if err != nil {
		return nil, fmt.Errorf("prepare clients: %w", err)
	}
	return &clients{walk: w, tls: config, url: w.nodes[0].apiURL() + settingsPath, started: make(chan struct{})}, nil
}

// begin lets the clients begin.
func (c *clients) begin() { close(c.started) }

// excuse says whether failures are excused from now on.
func (c *clients) excuse(yes bool) { c.excused.Store(yes) }

// Requests returns how many requests of clients have ended, and why some of them failed;
// nil: none did.
func (w *Walk) Requests() (sent int, failed error) {
	c := w.clients
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent, errors.Join(c.failed...)
}

// run runs the clients until ctx ends.
func (c *clients) run(ctx context.Context) {
	select {
	case <-c.started:
	case <-ctx.Done():
		return
	}
	var all sync.WaitGroup
	for i := range c.open {
		c.askGate(ctx, i) // the first clients need an answer
		all.Go(func() { c.followGate(ctx, i) })
	}
	for i := range clientCount {
		all.Go(func() { c.send(ctx, i%2 == 0) })
	}
	all.Wait()
}

// followGate asks the sidecar of a node again and again.
func (c *clients) followGate(ctx context.Context, i int) {
	for pause(ctx, gateInterval) {
		c.askGate(ctx, i)
	}
}

// askGate asks the sidecar of a node whether its gate is open.
func (c *clients) askGate(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	c.open[i].Store(c.gateOpen(ctx, "http://"+c.walk.nodes[i].listen+"/readyz"))
}

func (c *clients) gateOpen(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// pause returns false if ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// dial connects to a node whose gate is open. If one refuses, it tries the next.
func (c *clients) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	err := errors.New("no gate is open")
	first := int(c.next.Add(1))
	for i := range NodeCount {
		at := (first + i) % NodeCount
		if !c.open[at].Load() {
			continue
		}
		var conn net.Conn
		var dialer net.Dialer
		if conn, err = dialer.DialContext(ctx, network, c.walk.nodes[at].apiAddr); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// send is one client.
func (c *clients) send(ctx context.Context, keep bool) {
	client := &http.Client{Timeout: clientTimeout, Transport: &http.Transport{
		TLSClientConfig: c.tls.Clone(), ForceAttemptHTTP2: true, DisableKeepAlives: !keep, DialContext: c.dial,
	}}
	for pause(ctx, clientPause) {
		if err := c.read(ctx, client); ctx.Err() == nil {
			c.count(err)
		}
	}
}

// read reads the object. As client-go does, it tries again if the server asks for that.
func (c *clients) read(ctx context.Context, client *http.Client) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		err = errors.Join(err, resp.Body.Close())
		switch {
		case err != nil || resp.StatusCode == http.StatusOK:
			return err
		case resp.StatusCode != http.StatusTooManyRequests || !pause(ctx, time.Second):
			return fmt.Errorf("the answer to a client is %s", resp.Status)
		}
	}
}

// count counts a request.
func (c *clients) count(err error) {
	if err != nil && c.excused.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	if err != nil && len(c.failed) < maxFailures {
		at := time.Since(c.walk.begin).Seconds()
		c.failed = append(c.failed, fmt.Errorf("after %.1f s: %w", at, err))
	}
}
