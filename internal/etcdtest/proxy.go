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

// Cut says how a Proxy keeps the two sides apart.
type Cut int

const (
	// Blackhole keeps the connections and lets nothing through, in either
	// direction. What was sent meanwhile arrives after Restore, late, as it does
	// when a network heals and TCP sends again.
	Blackhole Cut = iota + 1
	// BlackholeRequests does so from the client to the server alone.
	BlackholeRequests
	// BlackholeResponses does so from the server to the client alone: requests
	// take effect and nobody learns of it.
	BlackholeResponses
	// Reset breaks all connections, and new ones at once.
	Reset
)

// open is the state in which everything passes.
const open Cut = 0

// Proxy passes TCP connections on to a target until it is told to cut them. Its
// methods may be called from many goroutines.
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
func StartProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
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

// Cut keeps the two sides apart until Restore. When it returns, at most what
// the proxy was just writing still passes.
func (p *Proxy) Cut(how Cut) {
	p.cut.Set(how)
	if how == Reset {
		p.resetAll()
	}
}

// Delay holds whatever passes back for d, in each direction, until Restore. What
// follows on the same connection waits behind it: a slow network, not a long one.
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
	// Only "closed already" is possible, and no news.
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

// serve dials the target only once requests may pass: a cut network answers no
// connection request.
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

// pump copies from src to dst until one of them ends, and passes the end on.
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

// hold waits for the delay, and returns false where the proxy was closed
// meanwhile.
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

// await returns true when passes holds, and false when the connection is not to
// live on.
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

// keep notes an open connection, so that Cut and Close can break it. It returns
// false, and breaks the connection, where there are to be none.
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
	// Not a reset, which would discard what the kernel has still to send. It
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

// reset closes conn with a reset instead of a farewell. Both calls fail only on
// a connection that has ended already.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
