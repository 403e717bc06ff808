package app

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/role/service"
)

// What the sidecar stops, or has stopped, ends on purpose.
func TestServiceRuns(t *testing.T) {
	for phase, ends := range map[service.Phase]bool{
		service.BackOff: false, service.Running: false, service.Stopping: true, service.Stopped: true,
	} {
		st := service.Status{Phase: phase, LastExit: "exit status 2", Restarts: 3}
		st.Name = "web"
		want := []protocol.ServiceRun{{Name: "web", Ends: ends, LastExit: "exit status 2", Restarts: 3}}
		if got := serviceRuns(service.State{Services: []service.Status{st}}); !slices.Equal(got, want) {
			t.Errorf("%s: got %+v, want %+v", phase, got, want)
		}
	}
}
