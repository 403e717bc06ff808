package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
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
	if got := s.app.show.Snapshot().Get().Gate.Verdict; got.Reason != protocol.ShuttingDown {
		t.Errorf("the last verdict was %+v", got)
	}
}

// A worker that fails is a warning for as long as it lasts.
func TestWarnings_workerFailed(t *testing.T) {
	server, _, api := ledByNewer(t)
	s := start(t, configure(t, server.Endpoints()[0], api))
	since := time.Now().Add(-time.Minute)
	s.app.supervisor.Failures().Set([]supervise.Failure{{Worker: "kubernetes", Problem: "panic: on purpose", Since: since, Times: 3}})
	s.awaitFleet("the warning", func(r report.Status) bool {
		return slices.ContainsFunc(r.Warnings, func(w report.Warning) bool {
			return w.Reason == string(warn.WorkerFailed) && w.Since.Equal(since) && strings.Contains(w.Message, `"kubernetes" of this sidecar failed 3 times`)
		})
	})
}
