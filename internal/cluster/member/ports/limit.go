package ports

import (
	"net"
	"sync"
)

// limited is a listener of a bounded number of connections. The others wait in the kernel.
type limited struct {
	net.Listener
	places chan struct{} // filled by each connection
	full   func()        // is called before one has to wait
	once   sync.Once
	closed chan struct{}
}

func newLimited(inner net.Listener, most int, full func()) *limited {
	return &limited{Listener: inner, places: make(chan struct{}, most), full: full, closed: make(chan struct{})}
}

// Accept returns the next connection, when there is a place for it.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	default:
		l.full()
		select {
		case l.places <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{conn, sync.OnceFunc(func() { <-l.places })}, nil
}

// Close ends Accept.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	leave func()
}

// NetConn returns the connection below.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }

// Close closes the connection, and gives its place to another one.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
