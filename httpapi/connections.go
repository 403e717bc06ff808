package httpapi

import (
	"log/slog"
	"net"
	"net/netip"
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
	// reservedConnections come on top of maxConnections, for addresses without a connection: a few busy clients do
	// not keep a load balancer out.
	reservedConnections = 256

	// reservedFiles are the file descriptors that connections never use: the sidecar's own files,
	// etcd, the API, and services need them.
	reservedFiles = 512
	// fewestConnections are accepted in any case, even if file descriptors are scarce.
	fewestConnections = 64

	refusalReminder = time.Minute // between two log lines
)

// limitedListener closes connections above the bounds as soon as they are accepted.
// Clients on this machine are not counted, and always let in.
type limitedListener struct {
	net.Listener
	log      *slog.Logger
	refused  func(net.Conn) // before it is closed
	reminder rate.Sometimes

	most int // connections, besides reservedConnections

	mu        sync.Mutex // mu guards the fields below
	open      int
	byAddress map[netip.Addr]int // no zeros, so that it is no larger than open
}

func newLimitedListener(inner net.Listener, log *slog.Logger, refused func(net.Conn)) *limitedListener {
	l := &limitedListener{
		log: log, refused: refused, most: connectionsFor(allowance.FileLimit()),
		reminder: rate.Sometimes{Interval: refusalReminder}, byAddress: map[netip.Addr]int{},
	}
	l.Listener = allowance.Counted(inner, l.admit)
	return l
}

// connectionsFor returns how many connections a process may accept that may open so many files: it keeps
// reservedFiles for its other work.
func connectionsFor(files uint64) int {
	if files >= maxConnections+reservedConnections+reservedFiles {
		return maxConnections
	}
	return max(fewestConnections, int(files)-reservedConnections-reservedFiles) //nolint:gosec // below
}

// admit decides about a connection, and logs now and then that some are refused.
func (l *limitedListener) admit(conn net.Conn) (leave func(), ok bool) {
	if allowance.Local(conn) {
		return nil, true
	}
	client := allowance.Network(conn)
	if l.enter(client) {
		return func() { l.leave(client) }, true
	}
	l.reminder.Do(func() {
		l.log.Warn("connections are refused: too many are open", "client", client,
			"perAddress", maxConnectionsPerAddress, "inAll", l.most)
	})
	l.refused(conn)
	return nil, false
}

// enter counts a connection, unless it is above the bounds. If it was counted, leave must follow.
func (l *limitedListener) enter(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	most, own := l.most, l.byAddress[client]
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
