package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// The gate closes first, the API still answers during the delay, and Run returns
// no error.
func TestRun_gracefulStop(t *testing.T) {
	server, raw, api := ledByNewer(t)
	cfg := configure(t, server.Endpoints()[0], api)
	// A delay can be too short for a slow machine to observe the steps in it.
	for cfg.ShutdownDelay = 2 * time.Second; !stopsObserved(t, cfg); cfg.ShutdownDelay *= 4 {
		if cfg.ShutdownDelay > 30*time.Second {
			t.Fatalf("what happens was not observed in a delay of %s", cfg.ShutdownDelay)
		}
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

// stopsObserved runs a sidecar and stops it. It reports whether all steps of the
// shutdown delay were observed before its end.
func stopsObserved(t *testing.T, cfg Config) bool {
	t.Helper()
	s := start(t, cfg)
	s.awaitReason(protocol.Ready)
	began := time.Now()
	stopped := make(chan error, 1)
	var took time.Duration
	go func() {
		ended := s.stop()
		took = time.Since(began)
		stopped <- ended
	}()
	err := s.observeDelay()
	late := time.Since(began) >= cfg.ShutdownDelay
	if ended := <-stopped; ended != nil {
		t.Error(ended)
	}
	if took < cfg.ShutdownDelay {
		t.Fatalf("it ended after %s, want the delay of %s; %v", took, cfg.ShutdownDelay, err)
	}
	switch {
	case err == nil:
		return true
	case late:
		t.Logf("in a delay of %s: %v", cfg.ShutdownDelay, err)
		return false
	}
	t.Fatal(err)
	return false
}

// observeDelay returns an error if a sidecar that stops misses a step of the shutdown
// delay.
func (s *sidecar) observeDelay() error {
	if _, err := s.followStatus(func(r statusReport) bool { return r.Ready.Reason == string(protocol.ShuttingDown) }); err != nil {
		return fmt.Errorf("/status: %w", err)
	}
	if code, body, err := s.ask("/readyz"); err != nil || code != http.StatusServiceUnavailable || !strings.Contains(body, "[-]shutdown failed: ShuttingDown") {
		return errors.Join(fmt.Errorf("/readyz: %d %q", code, body), err)
	}
	if code, _, err := s.ask("/livez"); err != nil || code != http.StatusOK {
		return errors.Join(fmt.Errorf("/livez: %d", code), err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), s.app.cfg.ShutdownDelay)
	defer cancel()
	for {
		now, fleetChanged := s.app.follower.Fleet().Load()
		if r, _ := now.Record(s.app.id.node); r.Alive && r.Presence.Election == protocol.Withdrawn && !r.Presence.Ready {
			return nil
		}
		if !event.Wait(ctx, fleetChanged) {
			return fmt.Errorf("the presence is as before: %+v", now.Records)
		}
	}
}
