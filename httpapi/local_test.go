package httpapi

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lockstep-dev/lockstep/internal/allowance"
)

// A user of this machine opens connections and keeps them, with and without a request. Each new client is let in: the one
// that has waited longest for a request makes room, and one with a request only if all have one.
func TestLocals(t *testing.T) {
	l := newLimited()
	l.locals.most = 4
	var servers []*localConn
	var clients []*scriptedConn
	open := func() {
		t.Helper()
		server, client := l.connectLocal(t)
		servers, clients = append(servers, server), append(clients, client)
	}
	closed := func(want ...int) {
		t.Helper()
		for i, c := range clients {
			is := 0
			for _, w := range want {
				if w == i {
					is = 1
				}
			}
			if c.closed != is {
				t.Errorf("with %d clients, client %d was closed %d times", len(clients), i, c.closed)
			}
		}
	}
	for range 4 {
		open()
	}
	closed()
	servers[0].addRequests(1)
	servers[1].addRequests(1)
	servers[1].addRequests(1) // of HTTP/2
	servers[1].addRequests(-1)
	open()
	closed(2)
	servers[3].addRequests(1)
	servers[3].addRequests(-1) // it was idle for the shortest time
	open()
	closed(2, 4)
	for _, i := range []int{3, 5} {
		servers[i].addRequests(1)
	}
	open()
	closed(2, 4, 0)
	servers[0].addRequests(-1) // its handler notices that it was closed
	if l.locals.idle.Len() != 1 || l.locals.busy.Len() != 3 || l.refused != 3 || strings.Count(l.logged.String(), "\n") != 1 {
		t.Errorf("%d and %d connections, %d refused, the log: %s", l.locals.idle.Len(), l.locals.busy.Len(), l.refused, &l.logged)
	}
	if remedy := "'( dport = :8086 )'"; !strings.Contains(l.logged.String(), remedy) {
		t.Errorf("the log does not say %s: %s", remedy, &l.logged)
	}
	for _, s := range servers {
		for range 2 {
			_ = s.Close()
		}
	}
	if l.locals.idle.Len() != 0 || l.locals.busy.Len() != 0 {
		t.Error("closed connections are counted")
	}
}

// A checker on this machine that keeps its connection asks again and again: another one makes room.
func TestLocals_checker(t *testing.T) {
	f := newFixture(t, passingSnapshot(t))
	for _, path := range []string{"/readyz", "/readyz?verbose", "/livez"} {
		l := locals{most: 2}
		checker, _ := l.enter(nil)
		silent, _ := l.enter(nil)
		r := httptest.NewRequest(http.MethodGet, path, nil)
		f.Handler().ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), connectionKey{}, connection{local: checker})))
		if _, instead := l.enter(nil); instead != silent {
			t.Errorf("%s: the checker makes room for a new connection", path)
		}
	}
}

// connectLocal connects a client of this machine.
func (l *limited) connectLocal(t *testing.T) (*localConn, *scriptedConn) {
	t.Helper()
	client := &scriptedConn{remote: "127.0.0.1"}
	l.script.conns <- client
	got, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return allowance.Below[*localConn](got), client
}

// A server with many connections of this machine, which say nothing, half of a request, or more requests than they read
// answers of, answers each new one, and has a bounded number open.
func TestRun_manyLocals(t *testing.T) {
	f := newFixture(t, Snapshot{})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open, most atomic.Int32
	listener := allowance.Counted(inner, func(net.Conn) (leave func(), ok bool) {
		most.Store(max(most.Load(), open.Add(1))) // only one goroutine accepts
		return func() { open.Add(-1) }, true
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Run(ctx, listener) }()
	connect := func(says string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = conn.Write([]byte(says)) // it may be closed already
		return conn
	}
	for _, said := range []string{"", "GET /metrics HTTP/1.1\r\nHost: a", strings.Repeat("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 10)} {
		var held []net.Conn
		for range localConnections + 20 {
			held = append(held, connect(said))
		}
		conn := connect("GET /livez HTTP/1.0\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("after connections that said %.20q: got %v, %v", said, answer, err)
		}
		_ = answer.Body.Close()
		for _, c := range append(held, conn) {
			_ = c.Close()
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for reason, want := range map[string]bool{refusedLocal: true, refusedConnections: false} {
		if n := testutil.ToFloat64(f.metrics.refused.WithLabelValues(reason)); (n > 0) != want {
			t.Errorf("%s: %v refused", reason, n)
		}
	}
	if got := most.Load(); got > localConnections+1 { // a new one is accepted before another one is closed
		t.Errorf("%d connections were open", got)
	}
}
