package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A panic of a worker that cannot be started again ends the sidecar in order, and not
// the process.
func TestRun_panicEndsInOrder(t *testing.T) {
	server, _, api := ledByNewer(t)
	s := start(t, configure(t, server.Endpoints()[0], api), func(a *App) {
		a.presence = fleet.NewPresence(fleet.PresenceConfig{
			Client: a.etcd, Node: "me", TTL: 3 * time.Second, Shown: a.shown, Log: a.log, Beat: func() <-chan struct{} { panic("on purpose") },
		})
	})
	if err := s.ended(); err == nil || err.Error() != "presence: panic: on purpose" {
		t.Errorf("it ended with %v", err)
	}
	if got := s.app.snapshot.Get().Gate.Verdict; got.Reason != protocol.ShuttingDown {
		t.Errorf("the last verdict was %+v", got)
	}
}

// A worker that fails is a warning for as long as it lasts.
func TestWarnings_workerFailed(t *testing.T) {
	a, err := New(configure(t, "http://127.0.0.1:1", newCountingAPI(t)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	since := time.Now().Add(-time.Minute)
	a.supervisor = supervise.New(slog.New(slog.DiscardHandler), nil)
	failures := []supervise.Failure{{Worker: "kubernetes", Problem: "panic: on purpose", Since: since, Times: 3}}
	a.supervisor.Failures().Set(failures)
	for _, w := range a.warningsNow(warned{}, time.Now()).shown {
		if w.Reason == protocol.WorkerFailed && w.Since.Equal(since) && strings.Contains(w.Message, `"kubernetes" of this sidecar failed 3 times`) {
			return
		}
	}
	t.Error("there is no warning")
}
