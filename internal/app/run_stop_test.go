package app

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// The gate closes first, the API still answers during the delay, and Run returns
// no error.
func TestRun_gracefulStop(t *testing.T) {
	server, raw, api := ledByNewer(t)
	cfg := configure(t, server.Endpoints()[0], api)
	cfg.ShutdownDelay = 2 * time.Second
	s := start(t, cfg)
	s.awaitReason(protocol.Ready)
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	s.awaitReason(protocol.ShuttingDown)
	if code, body := s.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "[-]shutdown failed: ShuttingDown") {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if code, _ := s.get("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
	awaitPresence(t, s.app, func(p protocol.Presence) bool { return p.Election == protocol.Withdrawn && !p.Ready })
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	resp, err := raw.Get(t.Context(), keys.Presence("me"))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != 0 {
		t.Error("the presence is still there after a clean exit")
	}
	if resp, err = raw.Get(t.Context(), keys.Node("me")); err != nil || len(resp.Kvs) != 1 {
		t.Errorf("the record has to stay: %v, %v", resp.Kvs, err)
	}
}

// awaitPresence follows the observed fleet until this node's presence is as
// wanted.
func awaitPresence(t *testing.T, app *App, ok func(protocol.Presence) bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		now, fleetChanged := app.follower.Fleet().Load()
		if r, _ := now.Record(app.id.node); r.Alive && ok(r.Presence) {
			return
		}
		select {
		case <-fleetChanged:
		case <-deadline:
			t.Fatalf("the presence did not become as wanted: %+v", now.Records)
		}
	}
}
