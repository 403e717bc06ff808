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

// limited is a limitedListener with its clients.
type limited struct {
	*limitedListener
	script  scriptedListener
	logged  bytes.Buffer
	refused int
}

func newLimited() *limited {
	out := &limited{script: scriptedListener{make(chan net.Conn, 2)}}
	out.limitedListener = newLimitedListener(out.script, slog.New(slog.NewTextHandler(&out.logged, nil)), func(net.Conn) { out.refused++ })
	return out
}

// connect connects a client, and returns the connection as the server gets it; nil: it was closed instead.
func (l *limited) connect(t *testing.T, remote string) (server net.Conn, client *scriptedConn) {
	t.Helper()
	conn, last := &scriptedConn{remote: remote}, &scriptedConn{remote: "127.0.0.1"}
	l.script.conns <- conn
	l.script.conns <- last
	got, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if isConn(got, last) {
		_ = got.Close()
		if conn.closed != 1 {
			t.Errorf("%s: refused, and closed %d times", remote, conn.closed)
		}
		return nil, conn
	}
	next, err := l.Accept()
	if err != nil || !isConn(next, last) {
		t.Fatalf("got %v, %v", next, err)
	}
	_ = next.Close()
	return got, conn
}

// isConn reports whether the server gets the connection of this client, on this machine.
func isConn(got net.Conn, client *scriptedConn) bool {
	local, is := got.(*localConn)
	return is && local.Conn == net.Conn(client)
}

// fill opens connections of one address, one more than it may have.
func (l *limited) fill(t *testing.T, remote string) (open []net.Conn, clients []*scriptedConn) {
	t.Helper()
	for range maxConnectionsPerAddress + 1 {
		if server, client := l.connect(t, remote); server != nil {
			open, clients = append(open, server), append(clients, client)
		}
	}
	return open, clients
}

func numbered(network byte, i int) string {
	return netip.AddrFrom4([4]byte{10, network, byte(i >> 8), byte(i)}).String()
}

func TestLimitedListener(t *testing.T) {
	l := newLimited()
	open, _ := l.fill(t, "10.1.0.1")
	if len(open) != maxConnectionsPerAddress {
		t.Errorf("%d connections of one address, want %d", len(open), maxConnectionsPerAddress)
	}
	if n := strings.Count(l.logged.String(), "\n"); n != 1 || l.refused != 1 {
		t.Errorf("%d lines in the log, and %d counted", n, l.refused)
	}
	for _, own := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.2", "10.0.0.1"} {
		if local, _ := l.fill(t, own); len(local) != maxConnectionsPerAddress+1 {
			t.Errorf("%s: %d connections", own, len(local))
		}
	}
	six, _ := l.fill(t, "fd00::1")
	if refused, _ := l.connect(t, "fd00::2"); refused != nil {
		t.Error("another address of the same /64 has a share of its own")
	}
	for _, c := range append(open, six...) {
		for range 2 { // a server closes some connections twice
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if l.open != 0 || len(l.clients) != 0 || l.oldestOf(1) != nil {
		t.Errorf("after all were closed, %d are counted: %v", l.open, l.clients)
	}
}

// Strangers open all connections that there are, and keep them. A health check of a load balancer still gets one: the
// oldest of the address that has most makes room, and never a client that showed an identity.
func TestLimitedListener_held(t *testing.T) {
	l := newLimited()
	own, reader := l.connect(t, "10.9.0.1")
	own.(*limitedConn).identify()
	var most [][]*scriptedConn
	for i := range maxConnections/maxConnectionsPerAddress - 1 {
		_, clients := l.fill(t, numbered(1, i))
		most = append(most, clients)
	}
	for i := 0; l.open < maxConnections+reservedConnections; i++ {
		l.connect(t, numbered(2, i))
	}
	l.refused = 0
	balancer, checked := l.connect(t, "10.3.0.1")
	if balancer == nil || l.refused != 1 || most[0][0].closed != 1 || most[0][1].closed != 0 {
		t.Fatalf("the check got %v; %d were refused; the oldest was closed %d times, the next %d times", balancer, l.refused, most[0][0].closed, most[0][1].closed)
	}
	if again, _ := l.connect(t, numbered(1, 1)); again != nil {
		t.Error("an address with as many connections as any gets another one")
	}
	if second, _ := l.connect(t, numbered(2, 0)); second == nil {
		t.Error("an address with one connection gets no other one")
	}
	for i := range maxConnections {
		if got, _ := l.connect(t, numbered(4, i)); got == nil || l.open > maxConnections+reservedConnections {
			t.Fatalf("address %d: got %v, %d are open", i, got, l.open)
		}
	}
	if checked.closed != 0 {
		t.Error("the check was closed, although older connections are open")
	}
	for i := range maxConnections {
		l.connect(t, numbered(5, i))
	}
	if reader.closed != 0 {
		t.Error("a client with an identity made room")
	}
	if checked.closed != 1 || balancer.Close() != nil {
		t.Error("the oldest connection is not closed, when each address has one")
	}
}

func TestConnectionsFor(t *testing.T) {
	const enough = maxConnections + reservedConnections + reservedFiles + localConnections
	for files, want := range map[uint64][2]int{
		0: {fewestConnections, fewestConnections}, 1024: {128, 128}, 1 << 20: {maxConnections, localConnections}, 1<<64 - 1: {maxConnections, localConnections},
		enough: {maxConnections, localConnections}, enough - 1: {enough - 1 - reservedConnections - reservedFiles - 255, 255},
	} {
		remote, local := connectionsFor(files)
		if got := [2]int{remote, local}; got != want {
			t.Errorf("%d files: got %v connections, want %v", files, got, want)
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
