package role

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/report"
)

// Only a service of the controller role that must be ready fails the turn, and not before its time
// to start is over.
func TestServicesFail(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		change func(*service.Status)
		want   bool
	}{
		"it starts":            {func(st *service.Status) { st.Since = report.At(now.Add(1 - nodeservices.Patience)) }, false},
		"it never gets ready":  {func(*service.Status) {}, true},
		"it ends at the start": {func(st *service.Status) { st.Phase, st.LastExit, st.Restarts = service.BackOff, "exit status 1", 1 }, true},
		"it is ready":          {func(st *service.Status) { st.Ready = true }, false},
		"it is optional":       {func(st *service.Status) { st.Required = false }, false},
		"of another role":      {func(st *service.Status) { st.Role = protocol.RoleWorker }, false},
	} {
		t.Run(name, func(t *testing.T) {
			st := service.Status{Service: report.Service{
				Name: "api", Role: protocol.RoleController, Phase: service.Running, Since: report.At(now.Add(-nodeservices.Patience)), Required: true,
			}}
			tt.change(&st)
			if got := servicesFail(service.State{Services: []service.Status{st}}, now); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
