package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/role"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
)

// keepServiceTurns takes a turn when services that take turns have changed, and ends it when they
// are ready, until ctx ends (docs/protocol.md#service-turns).
func (a *App) keepServiceTurns(ctx context.Context) error {
	var out outOfService
	for {
		now, fleetChanged := a.follower.Fleet().Load()
		pending, pendingChanged := a.roles.Pending().Load()
		_, stateChanged := a.roles.State().Load()
		published, publishedChanged := a.published()
		_, membersChanged := a.cluster.Members().Load()
		t, found := now.Turns.Of(a.id.node)
		has := found && t.Kind == protocol.TurnOfServices
		out.observe(has && isOut(now, a.id.node) && !published)
		a.showServiceTurn(role.Turn{Has: out.turn(has), Alone: a.isAlone(now)})
		a.observeService(now)
		own, _ := now.Record(a.id.node)
		a.stepServiceTurn(ctx, t, nodeservices.TurnFacts{
			Held: has, Other: found && !has, Work: t.Work, Cordoned: own.Node.Cordon.On(),
			Pending: pending != "", Alone: a.isAlone(now),
			Ready: a.roles.Changed(), Failing: servicesFail(a.roles.State().Get(), time.Now()),
		})
		var again <-chan time.Time
		if has || pending != "" {
			again = time.After(serviceTurnPause)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-fleetChanged:
		case <-pendingChanged:
		case <-stateChanged:
		case <-publishedChanged:
		case <-membersChanged:
		case <-again:
		}
	}
}

// stepServiceTurn takes the next step for the turn of this node's services.
func (a *App) stepServiceTurn(ctx context.Context, t protocol.Turn, f nodeservices.TurnFacts) {
	var err error
	switch nodeservices.NextTurnAction(f) {
	case nodeservices.AskTurn:
		a.takeServiceTurn(ctx)
	case nodeservices.GiveBackTurn:
		a.log.Info("the turn of the services is given back: people have ended its cordon")
		_, err = fleet.ForceTurnEnd(ctx, a.etcd, a.id.node)
	case nodeservices.FailTurn:
		a.log.Error("services do not become ready after their change: this node keeps its turn, and no other node gets one", "services", t.Message)
		err = fleet.SetTurnWork(ctx, a.etcd, a.id.node, protocol.TurnWorkFailed)
	case nodeservices.ContinueTurn:
		a.log.Info("services are started again in the turn of this node", "services", t.Message)
		err = fleet.SetTurnWork(ctx, a.etcd, a.id.node, protocol.TurnWorkUnderWay)
	case nodeservices.FinishTurn:
		err = a.endTurn(ctx, t)
	default: // wait for a change
	}
	if err != nil && !errors.Is(err, fleet.ErrNoTurn) && ctx.Err() == nil {
		a.log.Warn("the turn of the services is not changed yet, trying again", "err", err)
	}
}

// servicesFail reports whether a service of the controller role that must be ready keeps ending, or
// does not become ready in time.
func servicesFail(s service.State, now time.Time) bool {
	runs, _ := serviceRuns(service.State{Services: slices.DeleteFunc(slices.Clone(s.Services), func(st service.Status) bool {
		return st.Role != protocol.RoleController || !st.Required
	})}, nil, now)
	return len(nodeservices.Failing(runs)) > 0
}

// observeService records since when this node does not serve.
func (a *App) observeService(f protocol.Fleet) {
	own, found := f.Record(a.id.node)
	a.noService.observe(found && !own.Serves())
}

// serviceTurnPause is the pause before a turn of services is checked again without a change: the
// end of the drain causes no change.
const serviceTurnPause = time.Second

// outOfService records since when a node is out of service.
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

// turn returns the progress of the node's turn.
//
//revive:disable-next-line:flag-parameter it is a fact
func (o *outOfService) turn(has bool) nodeservices.Turn {
	if !has {
		return nodeservices.NoTurn
	}
	return nodeservices.TurnAfter(o.duration())
}

func (a *App) showServiceTurn(turn role.Turn) {
	if turn != a.serviceTurn.Get() {
		a.serviceTurn.Set(turn)
	}
}

// isOut reports whether the presence of a node shows a closed gate, and that it does not lead.
func isOut(f protocol.Fleet, id protocol.NodeID) bool {
	own, found := f.Record(id)
	return found && !own.Presence.Ready && own.Presence.Election != protocol.Leading
}

// isAlone reports whether no other controller is registered.
func (a *App) isAlone(f protocol.Fleet) bool {
	for _, r := range f.Records {
		if r.ID != a.id.node && r.Counts() {
			return false
		}
	}
	return f.Revision > 0
}

// whilePending returns a context that ends when no service waits for a turn any longer, or no turn is
// needed.
func (a *App) whilePending(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends with limited
		defer close(ended)
		defer cancel()
		for {
			pending, pendingChanged := a.roles.Pending().Load()
			now, fleetChanged := a.follower.Fleet().Load()
			if pending == "" || a.isAlone(now) || !event.Wait(limited, pendingChanged, fleetChanged) {
				return
			}
		}
	}()
	return limited, func() { cancel(); <-ended }
}

// takeServiceTurn waits for a turn while services need it, and takes it.
func (a *App) takeServiceTurn(ctx context.Context) {
	limited, cancel := a.whilePending(ctx)
	defer cancel()
	now, last, pending := time.Now().UTC(), "", a.roles.Pending().Get()
	_, err := fleet.AwaitTurn(limited, a.etcd, fleet.TurnWait{
		Want: protocol.Turn{
			Node: a.id.node, Since: now, Until: now.Add(protocol.TurnTime), Message: pending,
			By: "the sidecar", Kind: protocol.TurnOfServices, BootID: a.id.bootID,
		},
		// Etcd keeps running while services restart, so its members do not matter.
		Voters: func() []protocol.TurnVoter { return nil }, Followed: a.follower.Fleet(),
		Out: func() time.Duration {
			a.observeService(a.follower.Fleet().Get())
			return a.noService.duration()
		},
		Told: func(answer protocol.TurnAnswer, _ protocol.Turns) {
			if last != answer.Message {
				a.log.Info("services that have changed wait for a turn of this node", "services", pending, "reason", answer.Message)
				last = answer.Message
			}
		},
	})
	if err != nil && limited.Err() == nil {
		a.log.Warn("no turn for the services that have changed, trying again", "err", err)
	}
}
