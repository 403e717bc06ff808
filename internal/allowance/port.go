package allowance

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxAddresses bounds the memory that addresses take. If more are active, the others use
	// the common share only.
	maxAddresses = 4096
	// addressIdle is how long the place of an address is kept for it.
	addressIdle = 10 * time.Minute
	// sweepPause is the time between two searches for addresses that can be forgotten.
	sweepPause = time.Second
	// maxHeld is how many addresses can be held off: each is a part of the filter.
	maxHeld = 256
	// maxSpared is how many known addresses a filter lets through when it drops a random sample. The kernel bounds the
	// filter (net.core.optmem_max).
	maxSpared = 128
	// tick is the time between two changes of the filter.
	tick = 200 * time.Millisecond
)

// Port counts the processor time that the clients of a port used, or of several that share an allowance.
type Port struct {
	cfg Config

	mu       sync.Mutex     // mu guards the fields below
	sockets  []net.Listener // that are open
	known    map[netip.Addr]bool
	common   balance
	accounts map[netip.Addr]*account
	// free has the balances of the places that no address has. An address that takes one over gets the rest of its share,
	// so that addresses that take turns use no more than one that stays.
	free       []balance
	identified int       // addresses
	swept      time.Time // when addresses were last forgotten
	held       int       // addresses that the filter drops
	told       bool      // HeldOff, that some are
	refused    int       // connections since the last tick
	sample     float64
	ticking    *time.Timer // nil: no address is held off
	closed     bool        // all sockets are
}

// account is an address.
type account struct {
	place      bool
	identified bool    // then it has no place
	own        balance // if it has either
	open       int
	last       time.Time
	hold       hold
}

// NewPort returns a port without a listener.
func NewPort(cfg Config) *Port {
	if cfg.Refused == nil {
		cfg.Refused = func() {}
	}
	if cfg.HeldOff == nil {
		cfg.HeldOff = func(int) {}
	}
	return &Port{cfg: cfg, accounts: map[netip.Addr]*account{}, free: make([]balance, cfg.Places), sample: 1}
}

// Listen opens a port whose socket accepts a packet filter; a socket for MPTCP does not.
func Listen(address string) (net.Listener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	return config.Listen(context.Background(), "tcp", address) //nolint:forbidigo // as net.Listen does
}

// account needs mu. It returns nil if there are too many addresses.
func (p *Port) account(addr netip.Addr, now time.Time) *account {
	a := p.accounts[addr]
	if a == nil {
		if len(p.accounts) >= maxAddresses {
			p.sweep(now)
		}
		if len(p.accounts) >= maxAddresses {
			return nil
		}
		a = &account{}
		p.accounts[addr] = a
	}
	a.last = now
	if !a.shares() && !a.hold.abusive(now) {
		if len(p.free) == 0 {
			p.sweep(now)
		}
		if len(p.free) > 0 { // the one that has been free for longest
			a.place, a.own, p.free = true, p.free[0], p.free[1:]
		}
	}
	if a.shares() {
		a.own = a.own.filled(now, p.share(a), ownBurst)
	}
	return a
}

// shares reports whether an address has a share of its own.
func (a *account) shares() bool { return a.place || a.identified }

// share needs mu.
func (p *Port) share(a *account) float64 {
	if a.identified {
		return p.cfg.Own * min(identifiedFactor, float64(p.cfg.Identified)/float64(p.identified))
	}
	return p.cfg.Own
}

// leavePlace needs mu.
func (p *Port) leavePlace(a *account) {
	if a.place {
		a.place, p.free = false, append(p.free, a.own)
	}
}

// sweep needs mu. It forgets addresses that did not come back, and takes the places of those
// that were refused lately: they use more than a place gives.
func (p *Port) sweep(now time.Time) {
	if now.Sub(p.swept) < sweepPause {
		return
	}
	p.swept = now
	for addr, a := range p.accounts {
		idle := a.open == 0 && !a.hold.active(now) && now.Sub(a.last) > addressIdle
		if idle || a.hold.abusive(now) {
			p.leavePlace(a)
		}
		if idle && a.identified {
			a.identified = false
			p.identified--
		}
		if idle || !a.shares() && a.open == 0 && !a.hold.active(now) && now.Sub(a.last) > refusalWindow {
			delete(p.accounts, addr)
		}
	}
}

// pay takes the price of a step, and returns how long it must wait; ok: not longer than atMost.
func (p *Port) pay(addr netip.Addr, price, atMost time.Duration) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.payLocked(p.account(addr, time.Now()), price, atMost)
}

// payLocked needs mu.
func (p *Port) payLocked(a *account, price, atMost time.Duration) (wait time.Duration, ok bool) {
	p.common = p.common.filled(time.Now(), p.cfg.Common, commonBurst)
	var own *balance
	if a != nil && a.shares() {
		own = &a.own
	}
	return spend(own, &p.common, p.cfg.Common, price, atMost)
}

// charge takes the cost of a step, after it.
func (p *Port) charge(addr netip.Addr, cost time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if a := p.account(addr, now); a != nil && a.shares() && a.own.left > 0 {
		a.own.left -= cost
		return
	}
	p.common = p.common.filled(now, p.cfg.Common, commonBurst)
	p.common.left -= cost
}

// enter reports whether a connection may be opened. If so, left must follow.
func (p *Port) enter(addr netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.account(addr, time.Now())
	if _, ok := p.payLocked(a, connectionPrice, maxConnectWait); !ok {
		p.refuse(a)
		return false
	}
	if a != nil {
		a.open++
	}
	return true
}

func (p *Port) left(addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.accounts[addr]; a != nil && a.open > 0 {
		a.open--
	}
}

// Refuse counts a connection that was closed for another reason, such as too many that are open.
func (p *Port) Refuse(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known[Network(c)] {
		p.refuse(p.account(Network(c), time.Now()))
	}
}

// Know sets the addresses whose clients are not counted, and never refused or held off. Others may send from such an
// address too: what they cost is not bounded here. With IPv6, it is the whole network of the address.
func (p *Port) Know(all []netip.Addr) {
	known := map[netip.Addr]bool{}
	for _, addr := range all {
		known[network(addr)] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
	for addr := range known {
		if a := p.accounts[addr]; a != nil {
			a.hold = hold{}
		}
	}
	if p.held > 0 || p.sample < 1 {
		p.apply(time.Now()) // or their next connections do not arrive
	}
}

func (p *Port) knows(addr netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[addr]
}

// refuse needs mu.
func (p *Port) refuse(a *account) {
	p.refused++
	if p.closed {
		return
	}
	if a != nil {
		before := a.hold
		if a.hold = a.hold.afterRefusal(time.Now()); a.hold.until != before.until && p.held == 0 {
			p.apply(time.Now()) // the others wait for the tick
		}
	}
	if p.ticking == nil {
		p.ticking = time.AfterFunc(tick, p.tick)
	}
}

// tick adapts the filter, until no address is held off.
func (p *Port) tick() {
	p.mu.Lock()
	p.ticking = nil
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.sample = nextSample(p.sample, p.refused)
	busy := p.refused > 0
	p.refused = 0
	if p.apply(time.Now()) || busy {
		p.ticking = time.AfterFunc(tick, p.tick)
	}
	held := p.held
	changed := (held > 0) != p.told
	p.told = held > 0
	p.mu.Unlock()
	if changed {
		p.cfg.HeldOff(held)
	}
}

// apply needs mu. It changes the filter, and reports whether there is one.
func (p *Port) apply(now time.Time) bool {
	r := p.rules(now)
	for _, socket := range p.sockets {
		// Without a filter, as on another system or for a listener that is no socket, a refused
		// connection costs the time to close it.
		_ = attach(socket, r)
	}
	p.held = len(r.held)
	return !r.empty()
}

// rules needs mu.
func (p *Port) rules(now time.Time) rules {
	r := rules{sample: p.sample}
	for addr := range p.known {
		if len(r.spared) < maxSpared {
			r.spared = append(r.spared, addr)
		}
	}
	for addr, a := range p.accounts {
		switch {
		case a.hold.active(now) && len(r.held) < maxHeld:
			r.held = append(r.held, addr)
		case a.shares() && a.own.filled(now, p.share(a), ownBurst).left > 0:
			r.spared = append(r.spared, addr)
		}
	}
	return r
}

// identify gives an address the share of one whose client showed a valid identity, if fewer than Identified have one.
func (p *Port) identify(addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	a := p.account(addr, now)
	if a == nil || a.identified {
		return
	}
	if p.identified >= p.cfg.Identified {
		p.sweep(now)
	}
	if p.identified < p.cfg.Identified {
		p.leavePlace(a)
		a.identified, a.own = true, balance{}
		p.identified++
	}
}
