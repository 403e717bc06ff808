package etcdtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-dev/lockstep/event"
)

// Cut is how a Proxy cuts the two sides off from each other.
type Cut int

const (
	// Blackhole keeps the connections and passes nothing, in either direction.
	// What was sent meanwhile arrives after Restore, as it does when a network
	// recovers and TCP sends again.
	Blackhole Cut = iota + 1
	// BlackholeRequests passes nothing from the client to the server.
	BlackholeRequests
	// BlackholeResponses passes nothing from the server to the client: requests take
	// effect, and the client does not learn of it.
	BlackholeResponses
	// Reset breaks all connections, and new ones at once.
	Reset
)

// open is the state in which everything passes.
const open Cut = 0

// Proxy passes TCP connections on to a target until Cut cuts them. Its methods may
// be called from many goroutines.
type Proxy struct {
	target   string
	listener net.Listener
	cut      *event.Value[Cut]
	delay    atomic.Int64  // nanoseconds
	done     chan struct{} // closed by Close
	running  sync.WaitGroup

	mu     sync.Mutex // mu guards conns and closed
	conns  map[*net.TCPConn]bool
	closed bool
}

// StartProxy listens on a free port of loopback and passes connections on to
// target, a host:port.
func StartProxy(target string) (*Proxy, error) { return StartProxyAt("127.0.0.1", target) }

// StartProxyAt does the same on a free port of an address of this machine.
func StartProxyAt(host, target string) (*Proxy, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := newProxy(target, l)
	p.running.Go(p.accept)
	return p, nil
}

func newProxy(target string, l net.Listener) *Proxy {
	return &Proxy{
		target:   target,
		listener: l,
		cut:      event.New(open),
		done:     make(chan struct{}),
		conns:    map[*net.TCPConn]bool{},
	}
}

// Addr returns the host:port on which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut cuts the two sides off until Restore. After it returns, at most the bytes that
// the proxy was just writing still pass.
func (p *Proxy) Cut(how Cut) {
	p.cut.Set(how)
	if how == Reset {
		p.resetAll()
	}
}

// Delay delays everything by d, in each direction, until Restore. Later bytes of a
// connection wait behind earlier ones: so it simulates a slow network, not a long
// one.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Restore lets everything pass again.
func (p *Proxy) Restore() {
	p.delay.Store(0)
	p.cut.Set(open)
}

// Close breaks all connections and returns when the proxy's goroutines have
// ended. It may be called twice.
func (p *Proxy) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.done)
	}
	p.mu.Unlock()
	// The only possible error is that it is closed already.
	_ = p.listener.Close()
	p.resetAll()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // Close closed the listener
		}
		client := conn.(*net.TCPConn)
		if !p.keep(client) {
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve dials the target only when requests may pass: a cut network accepts no
// connection.
func (p *Proxy) serve(client *net.TCPConn) {
	defer p.drop(client)
	if !p.await(requestsPass) {
		return
	}
	conn, err := net.Dial("tcp", p.target)
	if err != nil {
		return // the client sees its connection end, as it would without a proxy
	}
	server := conn.(*net.TCPConn)
	if !p.keep(server) {
		return
	}
	defer p.drop(server)

	var pumps sync.WaitGroup
	pumps.Go(func() { p.pump(server, client, requestsPass) })
	pumps.Go(func() { p.pump(client, server, responsesPass) })
	pumps.Wait()
}

// pump copies from src to dst until one of them ends, and then ends the other.
func (p *Proxy) pump(dst, src *net.TCPConn, passes func(Cut) bool) {
	buf := make([]byte, 32<<10)
	for {
		n, readErr := src.Read(buf)
		if !p.hold() || !p.await(passes) {
			reset(dst)
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			reset(src)
			return
		}
		if errors.Is(readErr, io.EOF) {
			// A failure means that dst has ended too, which the other pump sees.
			_ = dst.CloseWrite()
			return
		}
		if readErr != nil {
			reset(dst)
			return
		}
	}
}

// hold waits for the delay. It returns false if the proxy is closed meanwhile.
func (p *Proxy) hold() bool {
	d := time.Duration(p.delay.Load())
	if d == 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-p.done:
		return false
	}
}

func requestsPass(c Cut) bool  { return c == open || c == BlackholeResponses }
func responsesPass(c Cut) bool { return c == open || c == BlackholeRequests }

// await returns true when passes is true of the cut, and false when the connection
// must end.
func (p *Proxy) await(passes func(Cut) bool) bool {
	for {
		cut, changed := p.cut.Load()
		if cut == Reset {
			return false
		}
		if passes(cut) {
			return true
		}
		select {
		case <-changed:
		case <-p.done:
			return false
		}
	}
}

// keep remembers an open connection, so that Cut and Close can break it. It breaks
// the connection and returns false if none is allowed now.
func (p *Proxy) keep(conn *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.cut.Get() == Reset {
		reset(conn)
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *Proxy) drop(conn *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	// Not a reset: that would discard bytes that the kernel has not sent yet. Close
	// fails on a connection that was reset already.
	_ = conn.Close()
}

func (p *Proxy) resetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		reset(conn)
	}
}

// reset closes conn with a TCP reset. Both calls fail only on a connection that has
// ended already.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
