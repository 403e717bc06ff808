package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

func containsAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// openStream asks base for /status?watch.
func openStream(t *testing.T, ctx context.Context, client *http.Client, base string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/status?watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// nextReport reads up to the end of the next event.
func nextReport(t *testing.T, lines *bufio.Scanner) report.Status {
	t.Helper()
	var out report.Status
	found := false
	for lines.Scan() {
		line := lines.Text()
		switch data, isData := strings.CutPrefix(line, "data: "); {
		case isData:
			found = true
			if err := json.Unmarshal([]byte(data), &out); err != nil {
				t.Fatalf("data of an event: %v", err)
			}
		case line == "" && found:
			return out
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
	return out
}

func TestStream(t *testing.T) {
	f := newFixture(t, Snapshot{})
	server := httptest.NewServer(f.Handler())
	t.Cleanup(server.Close)
	resp := openStream(t, t.Context(), http.DefaultClient, server.URL)
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type: got %q", got)
	}
	lines := bufio.NewScanner(resp.Body)
	if got := nextReport(t, lines); got.Ready.Reason != "Starting" {
		t.Errorf("the first event: got %q, want Starting", got.Ready.Reason)
	}
	for _, st := range states(t)[1:] {
		if st.snap.Gate.Verdict.Reason == protocol.Starting {
			continue // as the first one
		}
		f.snapshot.Set(Snapshot{Gate: st.snap.Gate, Warnings: []protocol.Warning{{Message: st.name}}})
		got := nextReport(t, lines)
		if got.Warnings[0].Message != st.name || got.Ready.Reason != string(st.snap.Gate.Verdict.Reason) {
			t.Errorf("after %q: got %v %s", st.name, got.Warnings, got.Ready.Reason)
		}
	}
	// A new revision alone is not sent: the next event is the one after it.
	snap := f.snapshot.Get()
	snap.Etcd.LastContact, snap.Etcd.Revision = report.At(epochTime), 99
	f.snapshot.Set(snap)
	snap.Warnings = []protocol.Warning{{Message: "next"}}
	f.snapshot.Set(snap)
	if got := nextReport(t, lines); got.Warnings[0].Message != "next" {
		t.Errorf("got %v, want the change that means something", got.Warnings)
	}
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func TestStreamEndsWithItsClient(t *testing.T) {
	f := newFixture(t, Snapshot{})
	server := httptest.NewServer(f.Handler())
	ctx, cancel := context.WithCancel(t.Context())
	openStream(t, ctx, http.DefaultClient, server.URL)
	cancel()
	server.Close() // waits for the handlers
	if n := f.streams.count(); n != 0 {
		t.Errorf("got %d streams, want none", n)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	f := newFixture(t, Snapshot{})
	server := httptest.NewServer(f.Handler())
	t.Cleanup(server.Close)
	for range maxStreams {
		if problem := f.streams.enter(netip.Addr{}, true); problem != "" {
			t.Fatal(problem)
		}
	}
	resp, body := ask(t, http.MethodGet, server.URL+"/status?watch", nil)
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503", resp.StatusCode)
	}
	wantProblem(t, resp, body)
	if n := testutil.ToFloat64(f.metrics.tooMany); n != 1 {
		t.Errorf("%v refused streams were counted, want 1", n)
	}
	loadContract(t).wantKept(t, "/status?watch", resp, body)
	f.streams.leave(netip.Addr{}, true)
	if resp := openStream(t, t.Context(), http.DefaultClient, server.URL); resp.StatusCode != http.StatusOK {
		t.Errorf("with one place free: got %d, want 200", resp.StatusCode)
	}
}

// One address cannot take all streams, and other machines together cannot take the streams that are kept for this one.
func TestStreams_shares(t *testing.T) {
	var s streams
	a := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }
	for i := range maxStreams - localStreams {
		if problem := s.enter(a(i/maxStreamsPerAddress), false); problem != "" {
			t.Fatalf("stream %d: %s", i, problem)
		}
		if problem := s.enter(a(i/maxStreamsPerAddress), false); (i+1)%maxStreamsPerAddress == 0 && problem == "" {
			t.Fatalf("stream %d: more than the share of an address", i)
		} else if problem == "" {
			s.leave(a(i/maxStreamsPerAddress), false)
		}
	}
	if s.enter(a(200), false) == "" {
		t.Error("other machines have more than their share")
	}
	for i := range localStreams {
		if problem := s.enter(netip.Addr{}, true); problem != "" {
			t.Fatalf("stream %d of this machine: %s", i, problem)
		}
	}
	if s.enter(netip.Addr{}, true) == "" {
		t.Error("there is no bound")
	}
	for i := range maxStreams - localStreams {
		s.leave(a(i/maxStreamsPerAddress), false)
	}
	for range localStreams {
		s.leave(netip.Addr{}, true)
	}
	if s.count() != 0 || s.remote != 0 || len(s.byAddress) != 0 {
		t.Errorf("after all were closed: %d, %d, %v", s.open, s.remote, s.byAddress)
	}
}

func TestStreamAnswersHead(t *testing.T) {
	server := httptest.NewServer(newFixture(t, Snapshot{}).Handler())
	t.Cleanup(server.Close)
	resp, _ := ask(t, http.MethodHead, server.URL+"/status?watch", nil)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %d %q", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
}

// TestStreamOutlivesTimeouts runs with deadlines far shorter than the stream,
// which shows by its signs of life that it goes on.
func TestStreamOutlivesTimeouts(t *testing.T) {
	ca := newAuthority(t)
	t.Run("HTTP/1", func(t *testing.T) {
		outlive(t, newFixture(t, Snapshot{}), http.DefaultClient, 1)
	})
	t.Run("HTTP/2", func(t *testing.T) {
		outlive(t, newFixture(t, Snapshot{}, func(c *Config) { c.TLS = newTLS(t, ca) }), httpsClient(t, ca, nil), 2)
	})
}

func outlive(t *testing.T, f fixture, client *http.Client, major int) {
	t.Helper()
	const limit = 500 * time.Millisecond // shorter ones end a connection that a busy machine has not used yet
	f.timeouts = timeouts{
		header: limit, read: limit, write: limit, idle: limit,
		streamWrite: time.Minute, keepAlive: limit / 5, shutdown: time.Minute,
	}
	base, stop := run(t, f)
	resp := openStream(t, t.Context(), client, base)
	if resp.ProtoMajor != major {
		t.Fatalf("got %s", resp.Proto)
	}
	lines := bufio.NewScanner(resp.Body)
	nextReport(t, lines)
	for alive := 0; alive < 10; { // twice the limits
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d signs of life: %v", alive, lines.Err())
		}
		if lines.Text() == ": keep-alive" {
			alive++
		}
	}
	f.snapshot.Set(Snapshot{Warnings: []protocol.Warning{{Message: "late"}}})
	if got := nextReport(t, lines); got.Warnings[0].Message != "late" {
		t.Errorf("got %v", got.Warnings)
	}
	stop()
	for lines.Scan() { // ends, or the test does not
	}
}

// run serves f on loopback and returns its URL, and a function that stops it and waits.
func run(t *testing.T, f fixture) (base string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	scheme := "http://"
	if f.certs != nil {
		scheme = "https://"
	}
	return scheme + l.Addr().String(), stop
}

// Only a command on this machine has the turn of this node.
func TestStream_command(t *testing.T) {
	for from, want := range map[string]int{"127.0.0.1:1": 1, "10.0.0.1:1": 1, "10.0.0.2:1": 0} {
		follows, ended := 0, 0
		f := newFixture(t, states(t)[1].snap, func(c *Config) {
			c.CommandFollows = func() func() { follows++; return func() { ended++ } }
		})
		own := net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8086})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), http.LocalAddrContextKey, own))
		cancel() // the client leaves at once
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/status?watch&turn", nil)
		r.Host, r.RemoteAddr = "10.0.0.1:8086", from
		f.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if follows != want || ended != want {
			t.Errorf("from %s: got %d commands, %d of them ended, want %d", from, follows, ended, want)
		}
	}
}
