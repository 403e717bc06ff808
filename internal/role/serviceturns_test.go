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

// givenTurns hold the turn of node a until it is given back.
type givenTurns struct {
	waitingTurns
	fleet *event.Value[protocol.Fleet]
}

func (g *givenTurns) Out(f protocol.Fleet) (bool, <-chan struct{}) { return len(f.Turns.Held) > 0, nil }

func (g *givenTurns) StepOfServices(_ context.Context, action nodeservices.TurnAction, _ protocol.Turn) {
	if action == nodeservices.GiveBackTurn {
		g.set(false, false)
	}
}

// set shows a fleet of two controllers: a has its turn, b serves.
//
//revive:disable-next-line:flag-parameter they are facts
func (g *givenTurns) set(inTurn, serves bool) {
	node := func(id protocol.NodeID, ready bool) *protocol.Record {
		r := &protocol.Record{ID: id, Alive: true, Node: protocol.Node{ID: id, Roles: protocol.Roles{Controller: true}, Serves: true}}
		if r.Presence.Ready = ready; ready {
			r.Presence.Reason = protocol.Ready
		}
		return r
	}
	f := protocol.Fleet{Revision: 1, Records: []*protocol.Record{node("a", false), node("b", serves)}}
	if inTurn {
		f.Turns.Held = []protocol.Turn{{Node: "a", Kind: protocol.TurnOfServices, Work: protocol.TurnWorkUnderWay}}
		f.Records[0].Node.Cordon = f.Turns.Held[0].Cordon()
	}
	g.fleet.Set(f)
}

// Another node stops serving in the drain: the turn is given back, and no service stops, also while the gate is still closed.
func TestServer_keepTurns_othersOut(t *testing.T) {
	for _, stays := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r, turns := newChangeRig(t), &givenTurns{fleet: event.New(protocol.Fleet{})}
			turns.set(true, true)
			r.server.cfg.Services.Turns = turns
			r.server.cfg.Registrar = fleet.RegistrarConfig{Local: event.New(protocol.Local{ID: "a"}), Fleet: turns.fleet}
			ctx, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			r.change("/2")
			r.gate(false)
			run.Go(func() { _ = r.server.keepTurns(ctx) })
			t.Cleanup(func() { cancel(); run.Wait() })
			<-time.After(nodeservices.TurnDrain - time.Millisecond)
			if !stays {
				turns.set(true, false)
			}
			<-time.After(2 * time.Second)
			if kept := len(turns.fleet.Get().Turns.Held) > 0; kept != stays {
				t.Errorf("the other node serves: %t; it has its turn: %t", stays, kept)
			}
			if stays {
				<-time.After(time.Second)
				r.want("stop api /1", "start api /2")
				return
			}
			r.want()
			r.gate(true)
			<-time.After(time.Hour)
			r.want()
		})
	}
}
