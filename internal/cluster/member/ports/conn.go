package ports

import (
	"errors"
	"net"
	"sync"
	"time"
)

// mostHandshake is how many bytes a client may send until its certificate is accepted. Ours need a quarter of it. It
// bounds how many certificates are parsed, at the address of a node too.
const mostHandshake = 16 << 10

var errTooLong = errors.New("the client sends more than a certificate of the cluster needs")

// handed is a listener of connections whose handshake has ended.
type handed struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
	addr   net.Addr
}

func newHanded(addr net.Addr) *handed {
	return &handed{conns: make(chan net.Conn), closed: make(chan struct{}), addr: addr}
}

// pass hands a connection to the server that accepts it.
func (l *handed) pass(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.closed:
		_ = c.Close() // the server stops
	}
}

// Accept returns the next connection.
func (l *handed) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *handed) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the address of the port.
func (l *handed) Addr() net.Addr { return l.addr }

// timedConn bounds each read and each write below TLS, not a whole request. Until bound, it bounds the bytes to read.
type timedConn struct {
	net.Conn
	once  sync.Once
	leave func() // called by the first Close
	// begun is called when gRPC has begun to serve the connection, and by Close: perhaps often.
	begun func()

	mu          sync.Mutex // mu guards the fields below
	left        int        // bytes of the handshake; below zero: it has ended
	patience    time.Duration
	read, write time.Time // deadlines that the server set; zero: none
}

// NetConn returns the connection below.
func (c *timedConn) NetConn() net.Conn { return c.Conn }

// bound ends the bound of the handshake, and sets the patience; 0: none.
func (c *timedConn) bound(patience time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.patience = -1, patience
}

// shorten bounds a read or write for which the server set a deadline. It needs mu.
func (c *timedConn) shorten(change func(time.Time) error, set time.Time) error {
	if c.patience == 0 {
		return nil
	}
	if at := time.Now().Add(c.patience); set.IsZero() || at.Before(set) {
		set = at
	}
	return change(set)
}

// Read ends after patience, or at the deadline of the server.
func (c *timedConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	err, left := c.shorten(c.Conn.SetReadDeadline, c.read), c.left
	c.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case left == 0:
		return 0, errTooLong
	case left < 0:
		return c.Conn.Read(b)
	}
	n, err := c.Conn.Read(b[:min(len(b), left)])
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left > 0 {
		c.left -= n
	}
	return n, err
}

// Write ends after patience, or at the deadline of the server.
func (c *timedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	err := c.shorten(c.Conn.SetWriteDeadline, c.write)
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// SetDeadline sets both deadlines.
func (c *timedConn) SetDeadline(t time.Time) error {
	if t.IsZero() { // gRPC has read the first frames
		c.begun()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.write = t, t
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline also ends a read that is under way.
func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline also ends a write that is under way.
func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(t)
}

// Close closes the connection.
func (c *timedConn) Close() error {
	c.once.Do(c.leave)
	c.begun()
	return c.Conn.Close()
}
