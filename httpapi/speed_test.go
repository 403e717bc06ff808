//go:build !race

package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/event"
)

// discarded is a response that is thrown away. It can be used again.
type discarded struct {
	header http.Header
	code   int
}

func (d *discarded) Header() http.Header { return d.header }

func (d *discarded) Write(text []byte) (int, error) { return len(text), nil }

func (d *discarded) WriteHeader(code int) { d.code = code }

// TestReadyz_allocatesNothing: a health check that passes allocates no more than a router with a handler that does nothing.
func TestReadyz_allocatesNothing(t *testing.T) {
	f := newFixture(t, passingSnapshot(t), func(c *Config) { c.Registerer = prometheus.NewRegistry() })
	bare := chi.NewRouter()
	bare.Get("/readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(okBody) })
	allocations := func(h http.Handler, path string) float64 {
		r, w := httptest.NewRequest(http.MethodGet, path, http.NoBody), &discarded{header: http.Header{}}
		return testing.AllocsPerRun(1000, func() {
			clear(w.header)
			h.ServeHTTP(w, r)
		})
	}
	if got, want := allocations(f.Handler(), "/readyz"), allocations(bare, "/readyz"); got > want {
		t.Errorf("/readyz allocates %v times, a bare router %v times", got, want)
	}
	if got := allocations(f.Handler(), "/readyz?verbose"); got < 10 {
		t.Errorf("/readyz?verbose allocates %v times: the test counts nothing", got)
	}
}

// TestReadyz_headers: a client that sends header fields gets the headers for browsers and caches; to one that sends none, they
// are not worth their time. All else is the same.
func TestReadyz_headers(t *testing.T) {
	f := newFixture(t, passingSnapshot(t))
	server := httptest.NewServer(f.Handler())
	t.Cleanup(server.Close)
	for _, test := range []struct{ field, want string }{{"", ""}, {"User-Agent: kube-probe/1.36\r\n", "no-cache, private nosniff"}} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET /readyz HTTP/1.1\r\nHost: a\r\n%s\r\n", test.field); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = conn.Close()
		got := strings.TrimSpace(resp.Header.Get("Cache-Control") + " " + resp.Header.Get("X-Content-Type-Options"))
		if err != nil || resp.StatusCode != http.StatusOK || string(body) != "ok" || resp.ContentLength != 2 ||
			resp.Header.Get("Content-Type") != plainText[0] || got != test.want {
			t.Errorf("%q: got %d %q %v, want the headers %q", test.field, resp.StatusCode, body, resp.Header, test.want)
		}
	}
}

// TestRendering_allocatesNothing: of one snapshot, all streams get the same text.
func TestRendering_allocatesNothing(t *testing.T) {
	all := states(t)
	snapshot, r := event.New(all[0].snap), &rendering{}
	r.of(snapshot)
	if n := testing.AllocsPerRun(100, func() { r.of(snapshot) }); n > 0 {
		t.Errorf("the second rendering of a snapshot allocates %v times", n)
	}
	before := r.of(snapshot)
	snapshot.Set(all[1].snap)
	if after := r.of(snapshot); after.text == before.text || after.mark == before.mark {
		t.Error("a newer snapshot has the text of the one before")
	}
}
