package app

import (
	"net/http"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// TestFleetLock: without a flag, a sidecar knows the paths of FleetLock; with it, there are none.
func TestFleetLock(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	for no, want := range map[bool]int{false: http.StatusMethodNotAllowed, true: http.StatusNotFound} {
		cfg := configure(t, server.Endpoints()[0], api)
		cfg.NoFleetLock = no
		s := start(t, cfg)
		if code, body := s.get("/v1/pre-reboot"); code != want {
			t.Errorf("no FleetLock: %t: got %d, want %d: %s", no, code, want, body)
		}
		_ = s.stop()
	}
}
