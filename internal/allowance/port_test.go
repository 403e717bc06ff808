package allowance

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// script is a listener with the connections that a test makes.
type script struct{ conns chan net.Conn }

func (s script) Accept() (net.Conn, error) {
	c, ok := <-s.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (script) Close() error   { return nil }
func (script) Addr() net.Addr { return &net.TCPAddr{} }

// endless is a connection that always has something to read.
type endless struct {
	net.Conn
	from netip.Addr
}

func (endless) Read(b []byte) (int, error)      { return len(b), nil }
func (endless) Close() error                    { return nil }
func (endless) SetReadDeadline(time.Time) error { return nil }
func (e endless) RemoteAddr() net.Addr          { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(e.from, 1)) }
func (endless) LocalAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)} }

// rig is a port with a listener.
type rig struct {
	*Port
	l      net.Listener
	script script
}

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	p, s := NewPort(cfg), script{make(chan net.Conn, 2)}
	r := &rig{p, p.Listener(s, s), s}
	t.Cleanup(func() { _ = r.l.Close() })
	return r
}

// connect returns nil if the connection was refused.
func (r *rig) connect(t *testing.T, from string) net.Conn {
	t.Helper()
	last := endless{from: netip.MustParseAddr("127.0.0.1")}
	r.script.conns <- endless{from: netip.MustParseAddr(from)}
	r.script.conns <- last
	got, err := r.l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got == net.Conn(last) {
		return nil
	}
	if next, err := r.l.Accept(); err != nil || next != net.Conn(last) {
		t.Fatalf("got %v, %v", next, err)
	}
	return got
}

// Clients that send without end get the common share and their own ones, whatever their number, and
// one that asks now and then never waits.
func TestPort_readsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const share, own, places = 0.02, 0.001, 4
		r := newRig(t, Config{Common: share, Own: own, Places: places})
		probe := r.connect(t, "10.0.1.1")
		var mu sync.Mutex
		var bytes int
		var reading sync.WaitGroup
		until := time.Now().Add(time.Minute)
		for i := range 8 {
			for range 4 {
				c := r.connect(t, netip.AddrFrom4([4]byte{10, 0, 2, byte(i)}).String())
				if c == nil {
					continue
				}
				reading.Go(func() {
					for b := make([]byte, 1<<10); time.Now().Before(until); {
						n, err := c.Read(b)
						mu.Lock()
						bytes += n
						mu.Unlock()
						if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		for time.Now().Before(until) {
			<-time.After(time.Second)
			began := time.Now()
			if _, err := probe.Read(make([]byte, 200)); err != nil || time.Since(began) != 0 {
				t.Fatalf("a probe waits %s: %v", time.Since(began), err)
			}
			c := r.connect(t, "10.0.1.1")
			if c == nil {
				t.Fatal("a probe is refused")
			}
			_ = c.Close()
		}
		reading.Wait()
		paid := time.Duration(bytes) * (kilobytePrice + readPrice) / (1 << 10)
		if most := time.Duration(float64(time.Minute) * (share + places*own) * 1.2); paid > most || paid < most/2 {
			t.Errorf("%s of a processor in a minute, want about %s", paid, most)
		}
		synctest.Wait()
	})
}

// What ends a read of net/http ends a wait too.
func TestConn_waitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Common: 0.01})
		for want, stop := range map[error]func(net.Conn){
			os.ErrDeadlineExceeded: func(c net.Conn) { _ = c.SetReadDeadline(time.Unix(1, 0)) },
			net.ErrClosed:          func(c net.Conn) { _ = c.Close() },
		} {
			c := r.connect(t, "10.0.1.1")
			Of(c).Charge(50 * time.Millisecond)
			began := time.Now()
			got := make(chan error, 1)
			go func() {
				_, err := c.Read(make([]byte, 1))
				got <- err
			}()
			synctest.Wait()
			stop(c)
			if err := <-got; !errors.Is(err, want) || time.Since(began) != 0 {
				t.Errorf("got %v after %s, want %v", err, time.Since(began), want)
			}
			<-time.After(time.Minute)
		}
	})
}

// An address that connects without end is held off; its place is free for another one then.
func TestPort_holdsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heldOff, refused := -1, 0
		r := newRig(t, Config{Common: 0.001, Own: 0.0001, Places: 1, HeldOff: func(n int) { heldOff = n }, Refused: func() { refused++ }})
		open := 0
		for range 200 {
			if r.connect(t, "10.0.2.1") != nil {
				open++
			}
		}
		<-time.After(tick)
		synctest.Wait()
		if refused == 0 || refused+open != 200 || heldOff != 1 {
			t.Errorf("%d are open, %d refused, %d addresses held off", open, refused, heldOff)
		}
		<-time.After(sweepPause)
		if c := r.connect(t, "10.0.1.1"); c == nil || !r.accounts[netip.MustParseAddr("10.0.1.1")].place {
			t.Error("a client that asks now and then has no place")
		}
		<-time.After(firstHold + tick)
		synctest.Wait()
		if heldOff != 0 {
			t.Errorf("after it was quiet, %d addresses are held off", heldOff)
		}
	})
}

// Who showed an identity is not held up in that connection, and has a place.
func TestConn_Identify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Common: 0.01, Own: 0.001, Identified: 1})
		c := r.connect(t, "10.0.1.1")
		stranger := r.connect(t, "10.0.2.1")
		Of(c).Identify()
		Of(stranger).Charge(time.Second)
		began := time.Now()
		if _, err := c.Read(make([]byte, 1<<20)); err != nil || Of(c).Pay(t.Context(), time.Hour) != nil || time.Since(began) != 0 {
			t.Errorf("it waits %s: %v", time.Since(began), err)
		}
		if r.connect(t, "10.0.1.1") == nil {
			t.Error("its next connection is refused")
		}
		if r.connect(t, "10.0.2.2") != nil {
			t.Error("the next stranger is not refused")
		}
	})
}

// use connects from each address in turn, until so many connections were refused, and returns what those cost that were not.
func (r *rig) use(t *testing.T, lasts time.Duration, refusals int, from func(i int) string) (paid time.Duration) {
	t.Helper()
	for i, until := 0, time.Now().Add(lasts); time.Now().Before(until); i++ {
		for refused := 0; refused < refusals && time.Now().Before(until); {
			if c := r.connect(t, from(i)); c != nil {
				paid += connectionPrice
				_ = c.Close()
			} else {
				refused++
				<-time.After(100 * time.Microsecond)
			}
		}
	}
	return paid
}

// Strangers that leave an address when it is refused get no more than those that stay: a place comes with what is left of it.
func TestPort_takeTurns(t *testing.T) {
	for _, refusals := range []int{1, abusiveRefusals, maxRefusals} {
		synctest.Test(t, func(t *testing.T) {
			const lasts = 10 * time.Second
			cfg := Config{Common: 0.001, Own: 0.0025, Places: 4}
			r := newRig(t, cfg)
			paid := r.use(t, lasts, refusals, func(i int) string { return netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}).String() })
			most := time.Duration((cfg.Common + float64(cfg.Places)*cfg.Own) * float64(lasts+ownBurst))
			if paid > most || paid < most/8 {
				t.Errorf("after %d refusals: they use %s, want at most %s", refusals, paid, most)
			}
		})
	}
}

// All addresses behind which a client has an identity get a bounded share, whatever their number, and take no place of a load
// balancer.
func TestConn_Identify_many(t *testing.T) {
	const lasts = 10 * time.Second
	cfg := Config{Common: 0.0005, Own: 0.0025, Places: 1, Identified: 12}
	for addresses, shares := range map[int]int{1: identifiedFactor, 2: cfg.Identified, cfg.Identified: cfg.Identified, 100: cfg.Identified + cfg.Places} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, cfg)
			from := func(i int) string { return netip.AddrFrom4([4]byte{10, 1, 0, byte(i % addresses)}).String() }
			for i := range addresses {
				if c := r.connect(t, from(i)); c != nil {
					Of(c).Identify()
				}
				<-time.After(time.Second)
			}
			c := r.connect(t, "10.2.0.1")
			if addresses <= cfg.Identified && (c == nil || !r.accounts[netip.MustParseAddr("10.2.0.1")].place) {
				t.Error("a load balancer has no place")
			}
			if r.identified > cfg.Identified {
				t.Errorf("%d addresses divide the share, want at most %d", r.identified, cfg.Identified)
			}
			paid, most := r.use(t, lasts, 1, from), time.Duration((cfg.Common+float64(shares)*cfg.Own)*float64(lasts+ownBurst))
			if paid > most || paid < most/2 {
				t.Errorf("%d addresses use %s, want at most %s", addresses, paid, most)
			}
		})
	}
}

// An address whose client showed an identity long ago leaves its share to the next one.
func TestConn_Identify_idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Common: 0.01, Own: 0.001, Places: 1, Identified: 1})
		before, now := netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("10.0.2.1")
		c := r.connect(t, before.String())
		Of(c).Identify()
		_ = c.Close()
		<-time.After(addressIdle + time.Second)
		Of(r.connect(t, now.String())).Identify()
		if _, kept := r.accounts[before]; kept || !r.accounts[now].identified || r.identified != 1 {
			t.Errorf("kept %t, identified %t, %d in all", kept, r.accounts[now].identified, r.identified)
		}
	})
}

// The memory is bounded.
func TestPort_manyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Common: 1, Own: 0.001, Places: 2})
		for i := range 2 * maxAddresses {
			if c := r.connect(t, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String()); c != nil {
				_ = c.Close()
			}
		}
		if len(r.accounts) > maxAddresses || len(r.free) != 0 {
			t.Errorf("%d addresses, %d free places", len(r.accounts), len(r.free))
		}
		<-time.After(addressIdle + time.Second)
		_ = r.connect(t, "10.9.9.9").Close()
		if len(r.accounts) > maxAddresses || !r.accounts[netip.MustParseAddr("10.9.9.9")].place || len(r.free) != 1 {
			t.Errorf("after they went: %d addresses, %d free places", len(r.accounts), len(r.free))
		}
	})
}
