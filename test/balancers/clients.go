package balancers

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// ClientsConfig configures clients.
type ClientsConfig struct {
	Name string       // of their objects: each group of clients uses its own
	API  *rest.Config // their server and credentials
	// Keep and New are how many clients keep one HTTP/2 connection, and how many dial for
	// each request.
	Keep, New int
	Watches   int           // how many more clients keep a watch open all the time
	Pause     time.Duration // between two requests of a client, until SetPause
	// Dial connects to a kube-apiserver; nil: to the address of API.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Counts are the results of clients.
type Counts struct {
	Requests int // that ended
	Failed   int // without a response, or with 5xx
	Unknown  int // of Failed: writes that may have taken effect
	Retried  int // times that a 429 asked to try again
	Misfits  int // responses of a kube-apiserver whose release does not fit the objects
	Lost     int // writes that were acknowledged and are missing
	Broken   int // watches that did not end with the end of a response
	// Errors are the first ones after each Begin.
	Errors []string
}

const maxErrors = 12

// Since returns the results after before.
func (n Counts) Since(before Counts) Counts {
	n.Requests -= before.Requests
	n.Failed -= before.Failed
	n.Unknown -= before.Unknown
	n.Retried -= before.Retried
	n.Misfits -= before.Misfits
	n.Lost -= before.Lost
	n.Broken -= before.Broken
	n.Errors = n.Errors[len(before.Errors):]
	return n
}

// Plus returns the sum of both.
func (n Counts) Plus(o Counts) Counts {
	n.Requests += o.Requests
	n.Failed += o.Failed
	n.Unknown += o.Unknown
	n.Retried += o.Retried
	n.Misfits += o.Misfits
	n.Lost += o.Lost
	n.Broken += o.Broken
	n.Errors = slices.Concat(n.Errors, o.Errors)
	return n
}

// Clients send requests until Stop: three of four are reads of the bundle's ConfigMap, the
// others write.
type Clients struct {
	cfg    ClientsConfig
	tls    *tls.Config
	cancel context.CancelFunc
	all    sync.WaitGroup
	pause  atomic.Int64 // a time.Duration

	mu     sync.Mutex // mu guards the fields below
	counts Counts
	room   int // how many errors counts may hold
}

const (
	readPath       = "/api/v1/namespaces/default/configmaps/platform"
	writePath      = "/api/v1/namespaces/default/configmaps/"
	requestTimeout = 15 * time.Second
	maxRetries     = 10  // as client-go
	maxShown       = 200 // bytes of a body in an error
)

// StartClients starts clients. They count from here on.
func StartClients(cfg ClientsConfig) (*Clients, error) {
	config, err := rest.TLSConfigFor(cfg.API)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Clients{cfg: cfg, tls: config, cancel: cancel, room: maxErrors}
	c.SetPause(cfg.Pause)
	for i := range cfg.Keep + cfg.New {
		name := fmt.Sprintf("client-%s-%d", cfg.Name, i)
		if err := c.create(ctx, name); err != nil {
			cancel()
			return nil, err
		}
		w := &worker{clients: c, name: name, http: c.client(i < cfg.Keep)}
		c.all.Go(func() { w.run(ctx) })
	}
	for range cfg.Watches {
		c.all.Go(func() { c.watch(ctx) })
	}
	return c, nil
}

// SetPause changes the pause between two requests of a client.
func (c *Clients) SetPause(d time.Duration) { c.pause.Store(int64(d)) }

func (c *Clients) rest(ctx context.Context) {
	select {
	case <-time.After(time.Duration(c.pause.Load())):
	case <-ctx.Done():
	}
}

// Counts returns the results of the clients until now.
func (c *Clients) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Begin returns the same, and keeps the first errors from now on as well.
func (c *Clients) Begin() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room = len(c.counts.Errors) + maxErrors
	return c.counts
}

// Stop ends the clients, and returns their results.
func (c *Clients) Stop() Counts {
	c.cancel()
	c.all.Wait()
	return c.Counts()
}

func (c *Clients) count(change func(*Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.counts)
}

// note counts, and keeps the error if it is one of the first.
func (c *Clients) note(err error, change func(*Counts)) {
	c.count(func(n *Counts) {
		change(n)
		if len(n.Errors) < c.room {
			n.Errors = append(n.Errors, time.Now().Format("15:04:05.000 ")+err.Error())
		}
	})
}

// client returns an HTTP client with one connection, or with one for each request.
func (c *Clients) client(keep bool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: c.tls.Clone(), ForceAttemptHTTP2: true, DisableKeepAlives: !keep, DialContext: c.cfg.Dial,
	}}
}

// create makes the object that a client writes.
func (c *Clients) create(ctx context.Context, name string) error {
	body := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}, "data": {"n": "0"}}`, name)
	resp, err := c.send(ctx, c.client(false), request{http.MethodPost, strings.TrimSuffix(writePath, "/"), body, "application/json"})
	if err != nil {
		return err
	}
	if resp.code != http.StatusCreated && resp.code != http.StatusConflict {
		return fmt.Errorf("create %s: %d: %s", name, resp.code, resp.body)
	}
	return nil
}

type request struct{ method, path, body, contentType string }

type response struct {
	code   int
	body   []byte
	after  time.Duration // to wait before another attempt; 0: the server did not ask for one
	server string        // name and release of the kube-apiserver
}

func (c *Clients) send(ctx context.Context, client *http.Client, r request) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, c.cfg.API.Host+r.path, strings.NewReader(r.body))
	if err != nil {
		return response{}, err
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	resp, err := client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	out := response{code: resp.StatusCode, server: resp.TLS.PeerCertificates[0].Subject.CommonName}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		out.after = time.Duration(seconds) * time.Second
	}
	out.body, err = io.ReadAll(resp.Body)
	return out, err
}

// worker is one client.
type worker struct {
	clients *Clients
	name    string
	http    *http.Client
	written int  // by the last write
	unknown bool // whether it took effect is not known
}

func (w *worker) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		if i%4 == 3 {
			w.write(ctx)
		} else {
			w.read(ctx)
		}
		w.clients.rest(ctx)
	}
}

// send sends a request, and counts it. As client-go does, it sends it again if the server
// asks for that with 429. ok: there is a response of success.
func (w *worker) send(ctx context.Context, r request) (resp response, ok bool) {
	c := w.clients
	for range maxRetries {
		var err error
		resp, err = c.send(ctx, w.http, r)
		switch {
		case ctx.Err() != nil:
			return resp, false // the end of the clients
		case err == nil && resp.code == http.StatusTooManyRequests:
			c.count(func(n *Counts) { n.Retried++ })
			select {
			case <-time.After(resp.after):
			case <-ctx.Done():
			}
			continue
		case err == nil && resp.code < 300:
			c.count(func(n *Counts) { n.Requests++ })
			return resp, true
		case err == nil:
			text := bytes.TrimSpace(resp.body[:min(len(resp.body), maxShown)])
			err = fmt.Errorf("%s %s: %d of %s: %s", r.method, r.path, resp.code, resp.server, text)
		}
		w.unknown = w.unknown || r.method != http.MethodGet && !errors.Is(err, syscall.ECONNREFUSED)
		c.note(err, func(n *Counts) {
			n.Requests, n.Failed = n.Requests+1, n.Failed+1
			if r.method != http.MethodGet && !errors.Is(err, syscall.ECONNREFUSED) {
				n.Unknown++
			}
		})
		return resp, false
	}
	err := fmt.Errorf("%s %s: 429 %d times", r.method, r.path, maxRetries)
	c.note(err, func(n *Counts) { n.Requests, n.Failed = n.Requests+1, n.Failed+1 })
	return resp, false
}

// read reads the object of the bundle, which contains the releases that the kube-apiserver must
// be compatible with.
func (w *worker) read(ctx context.Context) {
	resp, ok := w.send(ctx, request{method: http.MethodGet, path: readPath})
	if !ok {
		return
	}
	var object struct{ Data map[string]string }
	err := json.Unmarshal(resp.body, &object)
	fits := false
	_, release, _ := strings.Cut(resp.server, " ")
	if err == nil {
		fits, err = Fits(release, object.Data["release"], object.Data["minApiserver"])
	}
	switch {
	case err != nil:
		w.clients.note(fmt.Errorf("answer of %s: %w", resp.server, err), func(n *Counts) { n.Failed++ })
	case !fits:
		w.clients.note(fmt.Errorf("%s answers, and the objects are %v", resp.server, object.Data), func(n *Counts) { n.Misfits++ })
	}
}

// write counts up in this client's object. The response contains the number of the last
// acknowledged write, or of one after it whose outcome is not known.
func (w *worker) write(ctx context.Context) {
	own := writePath + w.name
	before, ok := w.send(ctx, request{method: http.MethodGet, path: own})
	if !ok {
		return
	}
	var object struct{ Data map[string]string }
	err := json.Unmarshal(before.body, &object)
	n, parseErr := strconv.Atoi(object.Data["n"])
	if err := errors.Join(err, parseErr); err != nil {
		w.clients.note(fmt.Errorf("answer of %s: %w", before.server, err), func(n *Counts) { n.Failed++ })
		return
	}
	if n != w.written && (!w.unknown || n != w.written+1) {
		w.clients.note(fmt.Errorf("%s: has %d, want %d", w.name, n, w.written), func(n *Counts) { n.Lost++ })
	}
	w.written, w.unknown = n, false
	body := fmt.Sprintf(`{"data": {"n": "%d"}}`, n+1)
	if _, ok := w.send(ctx, request{http.MethodPatch, own, body, "application/merge-patch+json"}); ok {
		w.written = n + 1
	}
}

// watch keeps a watch open until ctx ends. kube-apiserver ends a watch with the end of its
// response, also when it stops.
func (c *Clients) watch(ctx context.Context) {
	client := c.client(true)
	for ctx.Err() == nil {
		err := c.watchOnce(ctx, client)
		if ctx.Err() == nil && err != nil {
			c.note(fmt.Errorf("watch: %w", err), func(n *Counts) { n.Broken++ })
		}
		c.rest(ctx)
	}
}

func (c *Clients) watchOnce(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cfg.API.Host+"/api/v1/namespaces/kube-system/configmaps?watch=true", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
