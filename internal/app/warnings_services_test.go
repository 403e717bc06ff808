package app

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/role/service"
)

// A service is failing while it is not ready again after it ended. One that starts for the
// first time, or stops, is not.
func TestFailingServices(t *testing.T) {
	for name, tc := range map[string]struct {
		status service.Status
		want   bool
	}{
		"it ended again":               {service.Status{Phase: service.BackOff, LastExit: "exit status 2", Restarts: 1}, true},
		"it runs, and is not ready":    {service.Status{Phase: service.Running, LastExit: "exit status 2", Restarts: 1}, true},
		"it is ready again":            {service.Status{Phase: service.Running, Ready: true, LastExit: "exit status 2", Restarts: 3}, false},
		"it ended once":                {service.Status{Phase: service.BackOff, LastExit: "exit status 2"}, false},
		"it starts":                    {service.Status{Phase: service.Running}, false},
		"it stops":                     {service.Status{Phase: service.Stopping, LastExit: "exit status 2", Restarts: 3}, false},
		"it has stopped with its role": {service.Status{Phase: service.Stopped, LastExit: "exit status 0", Restarts: 3}, false},
	} {
		tc.status.Name = "web"
		got := failingServices(service.State{Services: []service.Status{tc.status}})
		if (len(got) == 1) != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
		if tc.want && (got[0].Reason != protocol.ServiceFailing || !strings.Contains(got[0].Message, `"web" ended (exit status 2)`)) {
			t.Errorf("%s: got %+v", name, got[0])
		}
	}
}
