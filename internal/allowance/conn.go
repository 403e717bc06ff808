package allowance

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Listener returns a listener whose connections are bounded by the port. inner may bound their
// number; socket is the listener with the packet filter. Several listeners share the allowance.
func (p *Port) Listener(inner, socket net.Listener) net.Listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sockets, p.closed = append(p.sockets, socket), false
	return &listener{inner, socket, p}
}

type listener struct {
	net.Listener
	socket net.Listener
	port   *Port
}

// Accept returns the next connection that the port allows.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := Network(conn)
		if Local(conn) || l.port.knows(addr) {
			return conn, nil
		}
		if l.port.enter(addr) {
			return &Conn{
				Conn: conn, port: l.port, addr: addr, changed: make(chan struct{}), ended: make(chan struct{}),
				leave: sync.OnceFunc(func() { l.port.left(addr) }),
			}, nil
		}
		l.port.cfg.Refused()
		_ = conn.Close() // the client learns of it either way
	}
}

// Close ends the timer of the port too, if no other listener is open.
func (l *listener) Close() error {
	l.port.mu.Lock()
	l.port.sockets = slices.DeleteFunc(l.port.sockets, func(s net.Listener) bool { return s == l.socket })
	l.port.closed = len(l.port.sockets) == 0
	if l.port.closed && l.port.ticking != nil {
		l.port.ticking.Stop()
	}
	l.port.mu.Unlock()
	return l.Listener.Close()
}

// Conn is a connection of a client without an identity.
type Conn struct {
	net.Conn
	port  *Port
	addr  netip.Addr
	leave func()

	identified atomic.Bool
	end        sync.Once
	ended      chan struct{} // closed by Close

	mu       sync.Mutex // mu guards the fields below
	deadline time.Time  // of reads; zero: none
	changed  chan struct{}
}

// Read waits until the client may have another read, and reads.
func (c *Conn) Read(b []byte) (int, error) {
	if c.identified.Load() {
		return c.Conn.Read(b)
	}
	if err := c.await(context.Background(), readPrice); err != nil { //nolint:forbidigo // Close and deadlines end it
		return 0, err
	}
	n, err := c.Conn.Read(b)
	const kilobyte = 1 << 10
	c.port.charge(c.addr, time.Duration(n)*kilobytePrice/kilobyte)
	return n, err
}

// Pay waits until the client can pay the price of a step. An error: ctx ended, the connection
// was closed, or the client used too much; then it should be closed.
func (c *Conn) Pay(ctx context.Context, price time.Duration) error {
	if c == nil || c.identified.Load() {
		return nil
	}
	return c.await(ctx, price)
}

// Charge takes the cost of a step beyond its price.
func (c *Conn) Charge(cost time.Duration) {
	if c != nil && cost > 0 && !c.identified.Load() {
		c.port.charge(c.addr, cost)
	}
}

// Identify ends the bounds of a connection whose client showed a valid identity.
func (c *Conn) Identify() {
	if c != nil && !c.identified.Swap(true) {
		c.port.identify(c.addr)
	}
}

// await pays a price, and waits as long as that takes.
func (c *Conn) await(ctx context.Context, price time.Duration) error {
	wait, ok := c.port.pay(c.addr, price, maxWait)
	if wait == 0 {
		return nil
	}
	over := time.NewTimer(min(wait, maxWait))
	defer over.Stop()
	for {
		c.mu.Lock()
		deadline, changed := c.deadline, c.changed
		c.mu.Unlock()
		if !deadline.IsZero() && !time.Now().Before(deadline) {
			return os.ErrDeadlineExceeded
		}
		select {
		case <-over.C:
			if !ok {
				return os.ErrDeadlineExceeded
			}
			return nil
		case <-changed:
		case <-c.ended:
			return net.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	c.setDeadline(t)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline ends a wait of Read too, once the deadline passed: net/http ends reads so.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.setDeadline(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *Conn) setDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	close(c.changed)
	c.changed = make(chan struct{})
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.end.Do(func() { close(c.ended) })
	defer c.leave()
	return c.Conn.Close()
}
