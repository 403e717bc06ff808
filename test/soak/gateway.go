package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// behaviour is how a gateway treats the requests of its sidecar.
type behaviour int32

// The behaviours of a gateway.
const (
	polite      behaviour = iota
	tooMany               // 429
	broken                // 500
	hanging               // no answer, and the request is not executed
	mute                  // no answer, and the request is executed
	tardy                 // a write is executed late, even if its sender gave up
	moody                 // every third request gets 429, every fifth 500
	nBehaviours = iota
)

func (m behaviour) String() string {
	return [nBehaviours]string{"answers", "answers 429", "answers 500", "hangs", "is mute", "is tardy", "is moody"}[m]
}

// tardiness is less than the five seconds for which a client waits.
const tardiness = 3500 * time.Millisecond

// gateway is a proxy in front of a kube-apiserver, with its certificate. It
// disturbs the requests of the sidecar.
type gateway struct {
	listener  net.Listener
	server    *http.Server
	forward   *httputil.ReverseProxy
	behaviour atomic.Int32
	count     atomic.Int64
	spoiled   atomic.Int64 // requests that were not simply forwarded
	done      chan struct{}
	// tardiness is how late a tardy write is executed.
	tardiness time.Duration
	running   sync.WaitGroup
}

// startGateway starts a gateway in front of the kube-apiserver at a URL.
func startGateway(c *cluster.Cluster, api string) (*gateway, error) {
	transport, err := rest.TransportFor(c.APIConfig(api))
	if err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	target, err := url.Parse(api)
	if err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	g := &gateway{done: make(chan struct{}), tardiness: tardiness}
	if g.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	g.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			// Like a kube-apiserver that was killed: no answer at all.
			panic(http.ErrAbortHandler)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	g.server = &http.Server{Handler: g, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	cert, key := c.ServerCertificate()
	g.running.Go(func() {
		// It ends only when close is called.
		_ = g.server.ServeTLS(g.listener, cert, key)
	})
	return g, nil
}

func (g *gateway) addr() string { return g.listener.Addr().String() }

func (g *gateway) set(m behaviour) { g.behaviour.Store(int32(m)) }

func (g *gateway) close() error {
	close(g.done)
	err := g.server.Close()
	g.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// ServeHTTP forwards a request, or not, according to the behaviour.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m, n := behaviour(g.behaviour.Load()), g.count.Add(1)
	if m == moody {
		switch {
		case n%3 == 0:
			m = tooMany
		case n%5 == 0:
			m = broken
		}
	}
	if m != polite && m != moody {
		g.spoiled.Add(1)
	}
	switch m {
	case tooMany:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "soak: too many requests", http.StatusTooManyRequests)
	case broken:
		http.Error(w, "soak: internal error", http.StatusInternalServerError)
	case hanging:
		g.wait(r.Context(), time.Hour)
		panic(http.ErrAbortHandler)
	case mute:
		g.forward.ServeHTTP(nowhere{http.Header{}}, r)
		g.wait(r.Context(), time.Hour)
		panic(http.ErrAbortHandler)
	case tardy:
		g.late(w, r)
	default:
		g.forward.ServeHTTP(w, r)
	}
}

// late forwards a write after a while, even if its sender gave up.
func (g *gateway) late(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		g.forward.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	detached := context.WithoutCancel(r.Context())
	g.wait(detached, g.tardiness)
	sent := r.Clone(detached)
	sent.Body = io.NopCloser(bytes.NewReader(body))
	if r.Context().Err() != nil {
		g.forward.ServeHTTP(nowhere{http.Header{}}, sent)
		return
	}
	g.forward.ServeHTTP(w, sent)
}

func (g *gateway) wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-g.done:
	}
}

// nowhere drops an answer.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}
