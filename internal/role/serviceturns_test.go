package role

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
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

// waitingTurns never get a turn, and count how often they ask for one.
type waitingTurns struct{ asked, waits atomic.Int64 }

func (*waitingTurns) Out(protocol.Fleet) (bool, <-chan struct{}) { return false, nil }

func (*waitingTurns) Alone(protocol.Fleet) bool { return false }

func (w *waitingTurns) TakeForServices(ctx context.Context, _ string, _ func() time.Duration) {
	w.asked.Add(1)
	w.waits.Add(1)
	<-ctx.Done()
	w.waits.Add(-1)
}

func (*waitingTurns) StepOfServices(context.Context, nodeservices.TurnAction, protocol.Turn) {}

// A sidecar that stops waits for no turn any more, and asks for none: it would hold the turn when it has stopped.
func TestServer_keepTurns_stops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, turns := newChangeRig(t), &waitingTurns{}
		r.server.cfg.Services.Turns = turns
		r.server.cfg.Registrar = fleet.RegistrarConfig{Local: event.New(protocol.Local{ID: "a"}), Fleet: event.New(protocol.Fleet{Revision: 1})}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = r.server.keepTurns(ctx) })
		t.Cleanup(func() { cancel(); run.Wait() })
		r.change("/2")
		<-time.After(time.Minute)
		if turns.asked.Load() != 1 || turns.waits.Load() != 1 {
			t.Fatalf("it asked for %d turns, and waits for %d, want one", turns.asked.Load(), turns.waits.Load())
		}
		r.server.stopping.Set(true)
		<-time.After(time.Minute)
		if turns.asked.Load() != 1 || turns.waits.Load() != 0 {
			t.Errorf("it asked for %d turns, and waits for %d, want that it waits for none", turns.asked.Load(), turns.waits.Load())
		}
		r.want()
	})
}
