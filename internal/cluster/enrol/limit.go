package enrol

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits bound the cost of unknown clients.
type Limits struct {
	// Requests of one address, and of all, per second. Above that they are answered
	// with status 429. A node that joins makes one request a second at most.
	PerAddress, InAll rate.Limit
	// Burst is how many requests of one address may come at once.
	Burst int
}

// Connections may come this much more often than requests; then they are closed before
// the TLS handshake, which costs most.
const (
	connectionsPerRequest = 2
	// allBurst times Limits.Burst requests may come at once from all addresses.
	allBurst = 4
	// maxOpen and maxOpenPerAddress bound the open connections. reservedOpen come on top of maxOpen, for addresses
	// without a connection: a few strangers who hold all others keep no node out.
	maxOpen           = 128
	maxOpenPerAddress = 32
	reservedOpen      = 128
	// maxAddresses bounds the memory that addresses take. If more are active, only the
	// limits in all are in force for the others.
	maxAddresses = 4096
	// addressIdle is how long an address is remembered: by then its limiters are full
	// again.
	addressIdle = time.Minute
	// sweepPause is the time between two searches for addresses that can be forgotten.
	sweepPause = time.Second
)

var defaultLimits = Limits{PerAddress: 5, InAll: 25, Burst: 30}

// guard counts requests and connections, by address and in all.
type guard struct {
	limits Limits

	mu          sync.Mutex // mu guards the fields below
	requests    *rate.Limiter
	connections *rate.Limiter
	open        int
	addresses   map[netip.Addr]*visitor
	swept       time.Time // when addresses were last forgotten
}

type visitor struct {
	requests    *rate.Limiter
	connections *rate.Limiter
	open        int
	last        time.Time
}

func newGuard(l Limits) *guard {
	return &guard{
		limits:      l,
		requests:    rate.NewLimiter(l.InAll, allBurst*l.Burst),
		connections: rate.NewLimiter(connectionsPerRequest*l.InAll, connectionsPerRequest*allBurst*l.Burst),
		addresses:   map[netip.Addr]*visitor{},
	}
}

// visitor needs mu. It returns nil if there are too many addresses.
func (g *guard) visitor(addr netip.Addr, now time.Time) *visitor {
	if c := g.addresses[addr]; c != nil {
		c.last = now
		return c
	}
	if len(g.addresses) >= maxAddresses && now.Sub(g.swept) >= sweepPause {
		g.swept = now
		for a, c := range g.addresses {
			if c.open == 0 && now.Sub(c.last) > addressIdle {
				delete(g.addresses, a)
			}
		}
	}
	if len(g.addresses) >= maxAddresses {
		return nil
	}
	c := &visitor{
		requests:    rate.NewLimiter(g.limits.PerAddress, g.limits.Burst),
		connections: rate.NewLimiter(connectionsPerRequest*g.limits.PerAddress, connectionsPerRequest*g.limits.Burst),
		last:        now,
	}
	g.addresses[addr] = c
	return c
}

// mayConnect reports whether a connection may be opened. If so, closed must follow.
func (g *guard) mayConnect(addr netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	c, most := g.visitor(addr, now), maxOpen
	if c != nil && c.open == 0 {
		most += reservedOpen
	}
	if g.open >= most || c != nil && (c.open >= maxOpenPerAddress || !c.connections.AllowN(now, 1)) || !g.connections.AllowN(now, 1) {
		return false
	}
	g.open++
	if c != nil {
		c.open++
	}
	return true
}

func (g *guard) closed(addr netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	if c := g.visitor(addr, time.Now()); c != nil && c.open > 0 {
		c.open--
	}
}

// mayRequest reports whether a request may be carried out.
func (g *guard) mayRequest(addr netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	c := g.visitor(addr, now)
	return (c == nil || c.requests.AllowN(now, 1)) && g.requests.AllowN(now, 1)
}
