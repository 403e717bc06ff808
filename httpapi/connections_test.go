package httpapi

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/event"
)

// scriptedListener accepts connections from clients with the addresses that a test chooses.
type scriptedListener struct{ conns chan net.Conn }

func (l scriptedListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (scriptedListener) Close() error   { return nil }
func (scriptedListener) Addr() net.Addr { return &net.TCPAddr{} }

type scriptedConn struct {
	net.Conn // nil: only Close and the addresses are asked for
	remote   string
	closed   int
}

func (c *scriptedConn) Close() error { c.closed++; return nil }
func (c *scriptedConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.remote), 1))
}

func (c *scriptedConn) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8086}
}

func TestLimitedListener(t *testing.T) {
	var logged bytes.Buffer
	counted := 0
	script := scriptedListener{make(chan net.Conn, 2)}
	l := newLimitedListener(script, slog.New(slog.NewTextHandler(&logged, nil)), func(net.Conn) { counted++ })
	// connect returns the connection as the server gets it; nil: it was closed instead.
	connect := func(remote string) net.Conn {
		t.Helper()
		conn := &scriptedConn{remote: remote}
		last := &scriptedConn{remote: "127.0.0.1"}
		script.conns <- conn
		script.conns <- last
		got, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got == net.Conn(last) {
			if conn.closed != 1 {
				t.Errorf("%s: refused, and closed %d times", remote, conn.closed)
			}
			return nil
		}
		if next, err := l.Accept(); err != nil || next != net.Conn(last) {
			t.Fatalf("got %v, %v", next, err)
		}
		return got
	}
	fill := func(remote string, want int) (open []net.Conn) {
		t.Helper()
		for range maxConnectionsPerAddress + 1 {
			if c := connect(remote); c != nil {
				open = append(open, c)
			}
		}
		if len(open) != want {
			t.Errorf("%s: %d connections, want %d", remote, len(open), want)
		}
		return open
	}
	var all []net.Conn
	for i := range maxConnections / maxConnectionsPerAddress {
		all = append(all, fill(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}).String(), maxConnectionsPerAddress)...)
	}
	all = append(all, fill("10.2.0.1", 1)...) // of the reserve
	for _, own := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.2", "10.0.0.1"} {
		if fill(own, maxConnectionsPerAddress+1); strings.Contains(logged.String(), own+" ") {
			t.Errorf("%s was refused", own)
		}
	}
	for i := range reservedConnections {
		if c := connect(netip.AddrFrom4([4]byte{10, 3, 0, byte(i)}).String()); (c != nil) != (i < reservedConnections-1) {
			t.Errorf("connection %d of the reserve: let in: %t", i+2, c != nil)
		} else if c != nil {
			all = append(all, c)
		}
	}
	if n := strings.Count(logged.String(), "\n"); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
	for _, c := range all {
		for range 2 { // a server closes some connections twice
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if l.open != 0 || len(l.byAddress) != 0 {
		t.Errorf("after all were closed, %d are counted: %v", l.open, l.byAddress)
	}
	if fill("fd00::1", maxConnectionsPerAddress); connect("fd00::2") != nil {
		t.Error("another address of the same /64 has a share of its own")
	}
}

func TestConnectionsFor(t *testing.T) {
	for files, want := range map[uint64]int{
		0: fewestConnections, 1024: 256, 1 << 20: maxConnections, 1<<64 - 1: maxConnections,
		maxConnections + reservedConnections + reservedFiles: maxConnections, maxConnections + reservedConnections + reservedFiles - 1: maxConnections - 1,
	} {
		if got := connectionsFor(files); got != want {
			t.Errorf("%d files: got %d connections, want %d", files, got, want)
		}
	}
}

// The server counts its connections.
func TestRun_boundsConnections(t *testing.T) {
	script := scriptedListener{make(chan net.Conn, maxConnectionsPerAddress+1)}
	refused := &scriptedConn{remote: "10.1.0.1"}
	served := make([]net.Conn, maxConnectionsPerAddress)
	for i := range served {
		near, far := net.Pipe()
		served[i] = far
		script.conns <- pipeFrom{near, &scriptedConn{remote: "10.1.0.1"}}
	}
	script.conns <- refused
	close(script.conns)
	s, err := New(Config{Snapshot: event.New(Snapshot{}), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), script); err == nil {
		t.Error("the listener ended")
	}
	if refused.closed != 1 {
		t.Errorf("the last connection was closed %d times", refused.closed)
	}
	for _, c := range served {
		_ = c.Close()
	}
}

// pipeFrom is a pipe with the addresses of a scriptedConn.
type pipeFrom struct {
	net.Conn
	addresses *scriptedConn
}

func (p pipeFrom) RemoteAddr() net.Addr { return p.addresses.RemoteAddr() }
func (p pipeFrom) LocalAddr() net.Addr  { return p.addresses.LocalAddr() }
