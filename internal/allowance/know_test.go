package allowance

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// What clients at a known address cost is not bounded, and strangers there do not get it held off. With IPv6, the address is its
// network.
func TestPort_Know(t *testing.T) {
	for _, tc := range []struct{ node, near string }{{"10.0.0.2", "10.0.0.2"}, {"fd00::2", "fd00::3"}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Config{Common: 0.001, Own: 0.0001})
			held := func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.held > 0
			}
			c := Of(r.connect(t, tc.near))
			if c == nil {
				t.Fatal("a stranger is not counted")
			}
			for range maxRefusals {
				r.Refuse(c)
			}
			if !held() {
				t.Fatal("a stranger is not held off")
			}
			r.Know([]netip.Addr{netip.MustParseAddr(tc.node)})
			if held() {
				t.Error("a node is held off because strangers were at its address")
			}
			for range maxRefusals {
				r.Refuse(c)
			}
			if held() {
				t.Error("a node is held off")
			}
			for range 1000 {
				conn := r.connect(t, tc.near)
				if conn == nil || Of(conn) != nil {
					t.Fatalf("the connection of a node is counted: %v", conn)
				}
			}
			r.Know(nil)
			if Of(r.connect(t, tc.node)) == nil {
				t.Error("an address stays known")
			}
		})
	}
}

// When a random sample of all connections is dropped, those of nodes are none of it.
func TestPort_Know_sampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Common: 0.001})
		r.Know([]netip.Addr{netip.MustParseAddr("10.0.0.2")})
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sample = minSample
		if got := r.rules(time.Now()).spared; len(got) != 1 {
			t.Errorf("got %v", got)
		}
	})
}

// Two ports share an allowance, until both are closed.
func TestPort_twoListeners(t *testing.T) {
	r := newRig(t, Config{Common: 0.001})
	second := script{make(chan net.Conn, 2)}
	l := r.Listener(second, second)
	_ = r.l.Close()
	if r.closed {
		t.Error("the port is closed with the first listener")
	}
	_ = l.Close()
	if !r.closed {
		t.Error("the port is not closed with the last listener")
	}
}
