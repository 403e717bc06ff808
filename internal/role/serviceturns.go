package role

import (
	"context"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// keepTurns takes a turn when services that take turns have changed, and ends it when they are ready,
// until ctx ends (docs/protocol-nodes.md#service-turns).
func (s *Server) keepTurns(ctx context.Context) error {
	turns, node := s.cfg.Services.Turns, s.cfg.Registrar.Local.Get().ID
	var out, noService outOfService // for its turn, and at all
	var wasOut time.Duration        // at all, when the turn was asked for last
	observe := func(f protocol.Fleet) protocol.Record {
		own, found := f.Record(node)
		noService.observe(found && !own.Serves())
		return own
	}
	for {
		now, fleetChanged := s.cfg.Registrar.Fleet.Load()
		pending, pendingChanged := s.pending.Load()
		_, stateChanged := s.supervised.State().Load()
		isOut, publishedChanged := turns.Out(now)
		t, found := now.Turns.Of(node)
		holds := found && t.Kind == protocol.TurnOfServices
		out.observe(holds && isOut)
		own := observe(now)
		drains := s.turn.Get().draining
		othersOut := holds && drains && nodeturns.OthersLeft(now, nil, node, wasOut) != ""
		// A turn that was given back drains until the gate has opened: a closed one lets services restart.
		returns := drains && !holds && !own.Presence.Ready && !own.Node.Cordon.On()
		leaves := holds && (othersOut || nodeservices.Draining(out.duration()))
		event.SetIfNew(s.turn, turn{draining: returns || leaves, alone: turns.Alone(now)})
		action := nodeservices.NextTurnAction(nodeservices.TurnFacts{
			Held: holds, Other: found && !holds, Work: t.Work, Cordoned: own.Node.Cordon.On(),
			OthersOut: othersOut, NoRole: own.ID != "" && !own.Counts(),
			Pending: pending != "", Alone: turns.Alone(now), Stops: s.stopping.Get(),
			Ready: s.changed(), Failing: servicesFail(s.supervised.State().Get(), time.Now()),
		})
		if action == nodeservices.AskTurn {
			limited, cancel := s.whilePending(ctx)
			turns.TakeForServices(limited, s.pending.Get(), func() time.Duration {
				observe(s.cfg.Registrar.Fleet.Get())
				wasOut = noService.duration()
				return wasOut
			})
			cancel()
		} else {
			turns.StepOfServices(ctx, action, t)
		}
		var again time.Duration
		if holds || pending != "" {
			again = turnPause
		}
		if !event.WaitFor(ctx, again, fleetChanged, pendingChanged, stateChanged, publishedChanged) {
			return ctx.Err()
		}
	}
}

// servicesFail reports whether a service of the controller role that must be ready keeps ending, or
// does not become ready in time.
func servicesFail(s service.State, now time.Time) bool {
	var runs []nodeservices.Run
	for _, st := range s.Services {
		if st.Role == protocol.RoleController && st.Required {
			runs = append(runs, st.Run(now))
		}
	}
	return len(nodeservices.Failing(runs)) > 0
}

// turnPause is the pause before a turn of services is checked again without a change: the end of the
// drain causes no change, and neither does an etcd member that answers again.
const turnPause = time.Second

// turn is this node's turn to change its services.
type turn struct {
	draining bool // clients may still use the node
	alone    bool // no other registered controller is known
}

// outOfService records since when a node is out of service, or its gate closed.
type outOfService struct{ since time.Time } // zero: clients may use it

//revive:disable-next-line:flag-parameter it is a fact
func (o *outOfService) observe(out bool) {
	switch {
	case !out:
		o.since = time.Time{}
	case o.since.IsZero():
		o.since = time.Now()
	}
}

// duration returns how long the node has been out of service.
func (o *outOfService) duration() time.Duration {
	if o.since.IsZero() {
		return 0
	}
	return time.Since(o.since)
}

// whilePending returns a context that ends when no service waits for a turn any longer, no turn is
// needed, or the sidecar stops.
func (s *Server) whilePending(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends with limited
		defer close(ended)
		defer cancel()
		for {
			pending, pendingChanged := s.pending.Load()
			now, fleetChanged := s.cfg.Registrar.Fleet.Load()
			stopping, stopped := s.stopping.Load()
			if pending == "" || stopping || s.cfg.Services.Turns.Alone(now) || !event.Wait(limited, pendingChanged, fleetChanged, stopped) {
				return
			}
		}
	}()
	return limited, func() { cancel(); <-ended }
}
