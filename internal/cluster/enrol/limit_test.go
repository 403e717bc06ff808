package enrol

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func addressOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// A dozen addresses open as many connections as they can, and keep them. A node at another address still joins.
func TestGuard_heldConnections(t *testing.T) {
	g := newGuard(Limits{PerAddress: 1e6, InAll: 1e6, Burst: 1e6})
	const strangers = 12
	for i := range strangers {
		for range maxOpen {
			g.mayConnect(addressOf(i))
		}
	}
	if most := maxOpen + strangers; g.open < maxOpen || g.open > most {
		t.Errorf("strangers have %d connections, want %d to %d", g.open, maxOpen, most)
	}
	node := addressOf(strangers)
	if !g.mayConnect(node) {
		t.Fatal("a node at another address cannot connect")
	}
	if g.mayConnect(node) {
		t.Error("it gets a second connection while strangers hold the others")
	}
	g.closed(node)
	if !g.mayConnect(node) {
		t.Error("it cannot connect again")
	}
	for i := range 2 * maxAddresses {
		g.mayConnect(addressOf(1000 + i))
	}
	if g.open > maxOpen+reservedOpen {
		t.Errorf("%d connections are open", g.open)
	}
}

// Strangers at thousands of addresses do not make the member search all that it remembers for each connection.
func TestGuard_sweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(defaultLimits)
		fill := func() {
			for i := 0; len(g.addresses) < maxAddresses; i++ {
				g.mayRequest(addressOf(i))
			}
		}
		known := func(i int) bool {
			g.mayRequest(addressOf(i))
			return g.addresses[addressOf(i)] != nil
		}
		fill()
		const first, second, third = 1 << 20, 2 << 20, 3 << 20
		if known(first) {
			t.Fatal("more addresses are remembered than allowed")
		}
		g.addresses[addressOf(0)].last = time.Now().Add(-2 * addressIdle)
		if known(second) {
			t.Error("all addresses are searched twice in a second")
		}
		<-time.After(sweepPause)
		if !known(third) {
			t.Error("an idle address is not forgotten")
		}
	})
}
