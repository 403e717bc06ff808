package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	// idleCalls is how many requests an idle sidecar may send to etcd in a minute, at the
	// default --lease-ttl.
	idleCalls = 24
	// idleRequests is how many it may send to the API: it asks for the version.
	idleRequests = 1
)

// benchIdle observes three idle sidecars with 1,000 objects. The slow cases of the
// peers run at the same time: they mostly wait, too.
func benchIdle(ctx context.Context, b *bench) error {
	api, err := b.startAPI("idle")
	if err != nil {
		return err
	}
	requests, err := countRequests(api)
	if err != nil {
		return err
	}
	defer requests.close()
	calls, err := countCalls(b.cluster.Etcd.Addr())
	if err != nil {
		return err
	}
	defer calls.close()
	dir, err := b.writeBundle(bundleSpec{name: "idle", release: "1.0.0", objects: thousand("idle")})
	if err != nil {
		return err
	}
	kubeconfig, err := b.writeKubeconfig("counted", requests.url)
	if err != nil {
		return err
	}
	nodes, err := b.startTrio(ctx, cluster.SidecarConfig{
		NodeID: "idle", Kubeconfig: kubeconfig, Bundle: dir, EtcdPrefix: prefixOf("idle"),
		EtcdServers: []string{"http://" + calls.addr},
	}, 3)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.watchIdle(groupCtx, nodes, requests, calls) })
	if b.opts.peers > 0 {
		group.Go(func() error { return b.benchPeers(groupCtx, api) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return errors.Join(nodes.stop(), api.Stop())
}

// watchIdle reports the requests, CPU time and memory of idle sidecars.
func (b *bench) watchIdle(ctx context.Context, nodes trio, requests *requestCounter, calls *callCounter) error {
	requests.settle(ctx) // until the start is over, and its Events are written
	before, err := used(ctx, nodes)
	if err != nil {
		return err
	}
	requests.reset()
	calls.n.Store(0)
	pause(ctx, b.opts.idle)
	asked, called := requests.n.Load(), calls.n.Load()
	after, err := used(ctx, nodes)
	if err != nil {
		return err
	}
	minutes, what := b.opts.idle.Minutes(), "3 idle sidecars, 1,000 objects: "
	versions := float64(idleRequests * len(nodes))
	b.report.fact(what+"API requests a minute", fmt.Sprintf("%.0f", float64(asked)/minutes),
		fmt.Sprintf("<= %.0f, for the version", versions), float64(asked) <= versions*minutes+versions)
	for path, n := range requests.paths() {
		progress("idle: %d API requests to %s", n, path)
	}
	// A request that is sent at intervals can happen one more time in the window: its lease is
	// kept alive, and the watches are checked.
	most, once := float64(idleCalls*len(nodes)), float64(2*len(nodes))
	b.report.fact(what+"etcd requests a minute", fmt.Sprintf("%.0f", float64(called)/minutes),
		fmt.Sprintf("<= %.0f", most), float64(called) <= most*minutes+once)
	b.report.fact(what+"CPU seconds a minute", fmt.Sprintf("%.2f", (after.cpu-before.cpu)/minutes), "", true)
	b.report.fact(what+"resident memory, all three", fmt.Sprintf("%.0f MB", after.memory/1e6), "", true)
	leader, others := nodes.leader()
	largest := 0.0
	for _, n := range others {
		one, err := used(ctx, trio{n})
		if err != nil {
			return err
		}
		largest = max(largest, one.memory)
	}
	leading, err := used(ctx, trio{leader})
	b.report.fact(what+"resident memory of the leader, and of the larger of the others", fmt.Sprintf("%.0f and %.0f MB", leading.memory/1e6, largest/1e6),
		"< 48 and 40 MB", leading.memory < 48e6 && largest < 40e6)
	return err
}

// usage is the CPU time, in seconds, and the resident memory, in bytes, of processes.
type usage struct{ cpu, memory float64 }

// used returns the sum of the usage that the sidecars' metrics report.
func used(ctx context.Context, nodes trio) (usage, error) {
	var sum usage
	for _, n := range nodes {
		_, text, err := n.Get(ctx, "/metrics")
		if err != nil {
			return usage{}, err
		}
		cpu, cpuErr := metric(text, "process_cpu_seconds_total")
		memory, memoryErr := metric(text, "process_resident_memory_bytes")
		if err := errors.Join(cpuErr, memoryErr); err != nil {
			return usage{}, err
		}
		sum.cpu, sum.memory = sum.cpu+cpu, sum.memory+memory
	}
	return sum, nil
}

func metric(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("/metrics has no %s", name)
}

// requestCounter forwards requests to a kube-apiserver, and counts them.
type requestCounter struct {
	n      atomic.Int64
	url    string
	server *http.Server

	mu     sync.Mutex // mu guards byPath
	byPath map[string]int
}

func (c *requestCounter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byPath = map[string]int{}
	c.n.Store(0)
}

func (c *requestCounter) add(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byPath[path]++
	c.n.Add(1)
}

// settle waits until no request came for longer than a leader waits before it writes Events.
func (c *requestCounter) settle(ctx context.Context) {
	for n := int64(-1); n != c.n.Load() && ctx.Err() == nil; pause(ctx, 12*time.Second) {
		n = c.n.Load()
	}
}

// paths returns how often each path was requested since the last reset.
func (c *requestCounter) paths() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byPath)
}

func countRequests(api *cluster.APIServer) (*requestCounter, error) {
	transport, err := rest.TransportFor(api.Config())
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(api.URL())
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &requestCounter{url: "http://" + listener.Addr().String(), byPath: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, // forward events of watches at once
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
	}
	c.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.add(r.URL.Path)
		proxy.ServeHTTP(w, r)
	})}
	go func() {
		_ = c.server.Serve(listener) // always returns an error after close
	}()
	return c, nil
}

// close also closes open connections. No client needs them any more.
func (c *requestCounter) close() { _ = c.server.Close() }

// callCounter forwards connections to etcd, and counts the requests on them. Each
// begins with one HTTP/2 frame of headers. A keep-alive or a new watch on an open
// stream is a frame of data, which it counts as well.
type callCounter struct {
	n        atomic.Int64
	addr     string
	listener net.Listener

	mu    sync.Mutex // mu guards conns
	conns []net.Conn
}

func countCalls(target string) (*callCounter, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &callCounter{addr: listener.Addr().String(), listener: listener}
	go func() { // ends with close
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				_ = in.Close() // the client sees that etcd does not listen
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, in, out)
			c.mu.Unlock()
			go c.pass(in, out)
			go func() {
				_, _ = io.Copy(in, out) // ends with either side
				_ = in.Close()
			}()
		}
	}()
	return c, nil
}

// close ends all connections.
func (c *callCounter) close() {
	_ = c.listener.Close() // it fails only if it is closed already
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close() // either side may have closed it
	}
}

// The parts of HTTP/2 that are needed to count requests (RFC 9113).
const (
	preface     = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frameHeader = 9
	frameData   = 0
	frameBegin  = 1 // HEADERS
	endStream   = 1 // flag
)

// pass forwards the client's requests, frame by frame.
func (c *callCounter) pass(in, out net.Conn) {
	defer out.Close()
	from := bufio.NewReader(in)
	if _, err := io.CopyN(out, from, int64(preface)); err != nil {
		return
	}
	counter := newFrames()
	for {
		header, err := from.Peek(frameHeader)
		if err != nil {
			return
		}
		c.n.Add(counter.count(header))
		length := int64(header[0])<<16 | int64(header[1])<<8 | int64(header[2])
		if _, err := io.CopyN(out, from, frameHeader+length); err != nil {
			return
		}
	}
}

// frames finds the frames that begin a request. The first data of a stream belong to
// its headers; further data are a request of their own.
type frames struct{ begun map[uint32]bool }

func newFrames() *frames { return &frames{begun: map[uint32]bool{}} }

// count returns 1 for a frame that begins a request, else 0.
func (f *frames) count(header []byte) int64 {
	empty := header[0] == 0 && header[1] == 0 && header[2] == 0
	stream := uint32(header[5]&0x7f)<<24 | uint32(header[6])<<16 | uint32(header[7])<<8 | uint32(header[8])
	switch {
	case header[3] == frameBegin:
		f.begun[stream] = true
		return 1
	case header[3] != frameData || empty:
		return 0
	}
	first := f.begun[stream]
	if header[4]&endStream != 0 {
		delete(f.begun, stream)
	} else {
		f.begun[stream] = false
	}
	if first {
		return 0
	}
	return 1
}

// unusedKubeconfig returns a kubeconfig for sidecars that never lead.
func (b *bench) unusedKubeconfig() (string, error) {
	return b.writeKubeconfig("unused", "http://127.0.0.1:1")
}

func (b *bench) writeKubeconfig(name, server string) (string, error) {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["local"] = &clientcmdapi.Cluster{Server: server}
	cfg.AuthInfos["nobody"] = clientcmdapi.NewAuthInfo()
	cfg.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "nobody"}
	cfg.CurrentContext = "local"
	file := filepath.Join(b.dir, name+".kubeconfig")
	return file, clientcmd.WriteToFile(*cfg, file)
}
