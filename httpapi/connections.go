package httpapi

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The open connections of clients on other machines are bounded, because each takes
// memory and a file descriptor, which the sidecar needs for its own work. A probe or a
// load balancer has a few.
const (
	maxConnections           = 1024
	maxConnectionsPerAddress = 64
	// reservedConnections are more than maxConnections, for addresses that have none yet:
	// a few busy clients do not keep a load balancer out.
	reservedConnections = 256

	refusalReminder = time.Minute // between two log lines
)

// limitedListener closes connections above the bounds as soon as they are accepted.
// Clients on this machine are not counted, and always let in.
type limitedListener struct {
	net.Listener
	log      *slog.Logger
	reminder rate.Sometimes

	mu        sync.Mutex // mu guards what follows
	open      int
	byAddress map[netip.Addr]int // no zeros, so that it is no larger than open
}

func newLimitedListener(l net.Listener, log *slog.Logger) *limitedListener {
	return &limitedListener{Listener: l, log: log, reminder: rate.Sometimes{Interval: refusalReminder}, byAddress: map[netip.Addr]int{}}
}

// Accept returns the next connection that is within the bounds.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client, local := hostOf(conn.RemoteAddr()), hostOf(conn.LocalAddr())
		if client.IsLoopback() || client == local {
			return conn, nil
		}
		if client = network(client); l.enter(client) {
			return &limitedConn{Conn: conn, leave: sync.OnceFunc(func() { l.leave(client) })}, nil
		}
		l.reminder.Do(func() {
			l.log.Warn("connections are refused: too many are open", "client", client,
				"perAddress", maxConnectionsPerAddress, "inAll", maxConnections)
		})
		_ = conn.Close() // the client learns of it either way
	}
}

// enter counts a connection, unless it is above the bounds. If it was counted, leave must follow.
func (l *limitedListener) enter(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	most, own := maxConnections, l.byAddress[client]
	if own == 0 {
		most += reservedConnections
	}
	if l.open >= most || own >= maxConnectionsPerAddress {
		return false
	}
	l.open++
	l.byAddress[client]++
	return true
}

func (l *limitedListener) leave(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.byAddress[client]--; l.byAddress[client] == 0 {
		delete(l.byAddress, client)
	}
}

// limitedConn is a connection that its listener has counted.
type limitedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection. It is no longer counted then.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// hostOf returns the zero address for what has none.
func hostOf(a net.Addr) netip.Addr {
	parsed, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return parsed.Addr().Unmap().WithZone("")
}

// network is what counts as one client: with IPv6, one machine has as many addresses as
// it likes of a /64.
func network(a netip.Addr) netip.Addr {
	if prefix, err := a.Prefix(64); err == nil && a.Is6() { //nolint:mnd // the size of a subnet
		return prefix.Addr()
	}
	return a
}
