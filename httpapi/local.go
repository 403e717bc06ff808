package httpapi

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// localConnections is how many connections of clients on this machine may be open: any user of the machine may open
// them.
const localConnections = 256

// locals are the open connections of clients on this machine. Each is let in. If there are too many, the one that has
// waited longest for a request is closed, or if all have one, the one that began first.
type locals struct {
	most int

	mu         sync.Mutex // mu guards the fields below, and the fields of each localConn
	idle, busy list.List  // of *localConn; the first one is closed first
}

// localConn is one of them. Its methods may be called on nil, for a client on another machine.
type localConn struct {
	net.Conn
	of       *locals
	place    *list.Element // nil: it is closed
	requests int           // that are under way
}

// enter adds a connection, and returns the one that has to be closed for it; nil: none has to.
func (l *locals) enter(conn net.Conn) (c, instead *localConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle.Len()+l.busy.Len() >= l.most {
		first := l.idle.Front()
		if first == nil {
			first = l.busy.Front()
		}
		instead, _ = first.Value.(*localConn)
		instead.remove()
	}
	c = &localConn{Conn: conn, of: l}
	c.place = l.idle.PushBack(c)
	return c, instead
}

// remove needs mu.
func (c *localConn) remove() {
	if c.place != nil {
		c.list().Remove(c.place)
		c.place = nil
	}
}

// list needs mu.
func (c *localConn) list() *list.List {
	if c.requests > 0 {
		return &c.of.busy
	}
	return &c.of.idle
}

// addRequests notes that n requests more are under way.
func (c *localConn) addRequests(n int) {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	was := c.list()
	c.requests += n
	if c.place != nil && c.list() != was {
		was.Remove(c.place)
		c.place = c.list().PushBack(c)
	}
}

// Close closes the connection, and gives its place to another one.
func (c *localConn) Close() error {
	c.of.mu.Lock()
	c.remove()
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// NetConn returns the connection below.
func (c *localConn) NetConn() net.Conn { return c.Conn }

// occupied notes that a connection of this machine has a request.
func occupied(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connectionOf(r).local
		c.addRequests(1)
		defer c.addRequests(-1)
		next.ServeHTTP(w, r)
	})
}
