package httpapi

import (
	"container/list"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lockstep-dev/lockstep/internal/allowance"
)

// The open connections of clients on other machines are bounded, because each takes memory and a file descriptor,
// which the sidecar needs for its own work. A probe or a load balancer needs a few.
const (
	maxConnections           = 1024
	maxConnectionsPerAddress = 64
	// reservedConnections come on top of maxConnections, for addresses without a connection: a few busy clients close
	// no connection of others.
	reservedConnections = 256

	// reservedFiles are the file descriptors that connections never use: the sidecar's own files,
	// etcd, the API, and services need them.
	reservedFiles = 512
	// fewestConnections are accepted in any case, even if file descriptors are scarce.
	fewestConnections = 64

	refusalReminder = time.Minute // between two log lines
)

// limitedListener closes connections above the bounds. If all are taken, a new one takes the place of another:
// strangers who open connections and keep them must not keep health checks out. Clients on this machine have
// places of their own, and are always let in.
type limitedListener struct {
	net.Listener
	log     *slog.Logger
	refused func(net.Conn) // before it is closed
	// reminder and reminderLocal bound the lines in the log.
	reminder, reminderLocal rate.Sometimes

	most   int // connections, besides reservedConnections
	locals locals

	mu      sync.Mutex // mu guards the fields below, and the fields of clients and connections
	open    int
	clients map[netip.Addr]*occupant // those with a connection
	// byCount has the clients by the number of their strangers, the one that has had it for longest first.
	byCount [maxConnectionsPerAddress + 1]list.List
}

// occupant is an address with connections.
type occupant struct {
	strangers []*limitedConn // the oldest first
	known     int            // connections that showed an identity, which never make room
	place     *list.Element  // in byCount[placed]; nil: it has no strangers
	placed    int
}

func (c *occupant) all() int { return len(c.strangers) + c.known }

// limitedConn is a connection that is counted.
type limitedConn struct {
	net.Conn
	from    *limitedListener
	address netip.Addr

	gone, identified bool
}

func newLimitedListener(inner net.Listener, log *slog.Logger, refused func(net.Conn)) *limitedListener {
	remote, local := connectionsFor(allowance.FileLimit())
	return &limitedListener{
		Listener: inner, log: log, refused: refused, most: remote, locals: locals{most: local},
		reminder: rate.Sometimes{Interval: refusalReminder}, reminderLocal: rate.Sometimes{Interval: refusalReminder},
		clients: map[netip.Addr]*occupant{},
	}
}

// connectionsFor returns how many connections of other machines, and of this one, a process may accept that may open so
// many files: it keeps reservedFiles for its other work.
func connectionsFor(files uint64) (remote, local int) {
	if files >= maxConnections+reservedConnections+reservedFiles+localConnections {
		return maxConnections, localConnections
	}
	const part = 8
	local = max(fewestConnections, min(localConnections, int(files)/part)) //nolint:gosec // below
	return min(maxConnections, max(fewestConnections, int(files)-reservedConnections-reservedFiles-local)), local
}

// Accept returns the next connection within the bounds.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if allowance.Local(conn) {
			return l.acceptLocal(conn), nil
		}
		c := &limitedConn{Conn: conn, from: l, address: allowance.Network(conn)}
		instead := l.enter(c)
		if instead != nil {
			l.reminder.Do(func() {
				l.log.Warn("connections are refused: too many are open", "client", instead.address,
					"perAddress", maxConnectionsPerAddress, "inAll", l.most)
			})
			l.refused(instead)
			_ = instead.Conn.Close() // the client notices it either way
		}
		if instead != c {
			return c, nil
		}
	}
}

// acceptLocal returns a connection of this machine, in the place of another one if there are too many.
func (l *limitedListener) acceptLocal(conn net.Conn) net.Conn {
	c, instead := l.locals.enter(conn)
	if instead != nil {
		l.reminderLocal.Do(func() {
			_, port, _ := net.SplitHostPort(conn.LocalAddr().String()) // it has one
			l.log.Warn("connections are closed: programs on this machine have too many open", "most", l.locals.most,
				"remedy", "to see which: ss -tnp state established '( dport = :"+port+" )'")
		})
		l.refused(instead)
		_ = instead.Conn.Close() // the client notices it either way
	}
	return c
}

// enter counts a connection, and returns the one that has to be closed for it: itself, if its address has too many. Nil:
// none has to.
func (l *limitedListener) enter(c *limitedConn) (instead *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.clients[c.address]
	if own == nil {
		own = &occupant{}
	}
	most := l.most
	if own.all() == 0 {
		most += reservedConnections
	}
	if own.all() >= maxConnectionsPerAddress {
		return c
	}
	if l.open >= most {
		if instead = l.oldestOf(max(1, own.all())); instead == nil {
			return c
		}
		l.remove(instead)
	}
	l.clients[c.address] = own
	own.strangers = append(own.strangers, c)
	l.open++
	l.arrange(c.address)
	return instead
}

// oldestOf needs mu. It returns the oldest stranger's connection of an address that has as many as any other, and not
// fewer than least.
func (l *limitedListener) oldestOf(least int) *limitedConn {
	for n := maxConnectionsPerAddress; n >= least; n-- {
		if first := l.byCount[n].Front(); first != nil {
			return first.Value.(*occupant).strangers[0]
		}
	}
	return nil
}

// arrange needs mu. It follows a change of an address.
func (l *limitedListener) arrange(address netip.Addr) {
	c := l.clients[address]
	if c.place != nil {
		l.byCount[c.placed].Remove(c.place)
		c.place = nil
	}
	if c.placed = len(c.strangers); c.placed > 0 {
		c.place = l.byCount[c.placed].PushBack(c)
	}
	if c.all() == 0 {
		delete(l.clients, address)
	}
}

// remove needs mu. It ends the count of a connection.
func (l *limitedListener) remove(c *limitedConn) {
	if c.gone {
		return
	}
	c.gone = true
	l.open--
	own := l.clients[c.address]
	if c.identified {
		own.known--
	} else {
		own.strangers = slices.DeleteFunc(own.strangers, func(other *limitedConn) bool { return other == c })
	}
	l.arrange(c.address)
}

// Close closes the connection and ends its count.
func (c *limitedConn) Close() error {
	c.from.mu.Lock()
	c.from.remove(c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// NetConn returns the connection below, for allowance.Below.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }

// identify notes that the client of a connection showed a valid identity. Nil: it is not counted.
func (c *limitedConn) identify() {
	if c == nil {
		return
	}
	l := c.from
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone || c.identified {
		return
	}
	c.identified = true
	own := l.clients[c.address]
	own.strangers = slices.DeleteFunc(own.strangers, func(other *limitedConn) bool { return other == c })
	own.known++
	l.arrange(c.address)
}
