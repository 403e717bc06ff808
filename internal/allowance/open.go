package allowance

import (
	"math"
	"net/netip"
	"sync"
	"syscall"
)

// Open bounds how many connections are open, because each takes memory and file descriptors. Its fields
// are set before the first use.
type Open struct {
	// Most is the number of connections, and PerAddress of those of one address.
	Most, PerAddress int
	// Reserved connections come on top of Most, for addresses without a connection: a few busy clients do
	// not keep others out.
	Reserved int

	mu        sync.Mutex // mu guards the fields below
	open      int
	byAddress map[netip.Addr]int // no zeros, so that it is no larger than open
}

// Enter counts a connection of a result of Network, unless it is above the bounds. If it was counted,
// Leave must follow.
func (o *Open) Enter(client netip.Addr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	most, own := o.Most, o.byAddress[client]
	if own == 0 {
		most += o.Reserved
	}
	if o.open >= most || own >= o.PerAddress {
		return false
	}
	if o.byAddress == nil {
		o.byAddress = map[netip.Addr]int{}
	}
	o.open++
	o.byAddress[client]++
	return true
}

// Leave ends the count of a connection.
func (o *Open) Leave(client netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open--
	if o.byAddress[client]--; o.byAddress[client] == 0 {
		delete(o.byAddress, client)
	}
}

// Counted returns how many connections are open, and how many addresses have one.
func (o *Open) Counted() (connections, addresses int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open, len(o.byAddress)
}

// FileLimit returns how many files this process may open. At the start, Go raised the limit to the highest that
// the system allows.
func FileLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur) //nolint:unconvert // its type depends on the system
}
