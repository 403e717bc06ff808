package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// A loop is stuck when it made no round for three TTLs, at least 30 s.
func TestLiveness(t *testing.T) {
	for ttl, limit := range map[time.Duration]time.Duration{3 * time.Second: 30 * time.Second, time.Minute: 3 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			l := newLiveness(ttl)
			go func() { _ = l.run(t.Context()) }()
			gate, snapshot := l.beatOf(gateLoop), l.beatOf(snapshotLoop)
			next := gate()
			snapshot()
			for range 20 {
				<-next
				next = gate() // this loop makes progress, and the other one hangs
				snapshot()
			}
			if got := l.stuck(); len(got) > 0 {
				t.Errorf("both make progress, and one has not begun: got %q", got)
			}
			hung := time.Now()
			for len(l.stuck()) == 0 && time.Since(hung) < time.Hour {
				<-next
				next = gate()
			}
			want := "snapshot failed: no progress for " + limit.String()
			if got := l.stuck(); len(got) != 1 || got[0] != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if took := time.Since(hung); took < limit || took > limit+limit/ticksUntilStuck {
				t.Errorf("noticed after %s, want %s", took, limit)
			}
			snapshot()
			if got := l.stuck(); len(got) > 0 {
				t.Errorf("it makes progress again: got %q", got)
			}
		})
	}
}

// The loops of a sidecar make rounds although nothing changes, also while etcd does not
// answer: a restart would close a gate that is open.
func TestRun_loopsMakeProgress(t *testing.T) {
	for name, endpoint := range map[string]string{"etcd answers": etcdtest.New(t).Endpoints()[0], "no etcd": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, configure(t, endpoint, newCountingAPI(t)))
			live := s.app.live
			for range 3 {
				event.Update(live.ticks, func(n int64) int64 { return n + 1 })
				now := live.ticks.Get()
				for which := range loops {
					for live.seen[which].Load() <= now {
						if !backoff.Sleep(t.Context(), 10*time.Millisecond) {
							t.Fatalf("%s makes no round", which)
						}
					}
				}
			}
			if code, body := s.get("/livez"); code != http.StatusOK {
				t.Errorf("got %d %s", code, body)
			}
		})
	}
}

func TestNew_livezWatchesTheLoops(t *testing.T) {
	a, err := New(configure(t, "http://127.0.0.1:1", newCountingAPI(t)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	a.live.beatOf(gateLoop)()
	for ticks, want := range map[int64]int{0: http.StatusOK, ticksUntilStuck: http.StatusOK, ticksUntilStuck + 1: http.StatusServiceUnavailable} {
		a.live.ticks.Set(ticks)
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/livez", nil))
		if w.Code != want {
			t.Errorf("after %d ticks: got %d %s, want %d", ticks, w.Code, w.Body, want)
		}
	}
}
