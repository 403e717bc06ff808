//go:build !race

package httpapi

import (
	"net/http"
	"net/http/httptest"
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
	open := Snapshot{}
	for _, st := range states(t) {
		if now := NewStatus(st.snap); now.Ready.Ready && now.Ready.Serves {
			open = st.snap
		}
	}
	f := newFixture(t, open, func(c *Config) { c.Registerer = prometheus.NewRegistry() })
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
