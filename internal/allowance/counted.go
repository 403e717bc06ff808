package allowance

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Counted returns a listener of the connections that enter lets in. It closes the others at once. It calls leave once,
// when the connection is closed; nil: the connection is not counted.
func Counted(l net.Listener, enter func(net.Conn) (leave func(), ok bool)) net.Listener {
	return &counted{l, enter} // a pointer: listeners are compared
}

type counted struct {
	net.Listener
	enter func(net.Conn) (leave func(), ok bool)
}

// Accept returns the next connection that enter lets in.
func (l counted) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		switch leave, ok := l.enter(conn); {
		case !ok:
			_ = conn.Close() // the client notices it either way
		case leave == nil:
			return conn, nil
		default:
			return &countedConn{conn, sync.OnceFunc(leave)}, nil
		}
	}
}

// countedConn is a connection that its listener counts.
type countedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection and ends its count.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

type connKey struct{}

// ConnContext is the ConnContext of an http.Server behind Port.Listener, for OfRequest.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, Of(c))
}

// OfRequest returns the connection of a request; nil: its client is not counted.
func OfRequest(r *http.Request) *Conn {
	c, _ := r.Context().Value(connKey{}).(*Conn)
	return c
}
