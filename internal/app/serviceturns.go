package app

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/role"
	"github.com/lockstep-dev/lockstep/protocol"
)

// keepServiceTurns takes a turn when services with restart: in-turn have changed, and ends it when
// they are ready, until ctx ends (docs/protocol.md#service-turns).
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
		if has {
			a.finishServices(ctx, t)
		}
		if !found && pending != "" && !a.isAlone(now) {
			a.takeServiceTurn(ctx, pending)
		}
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

// serviceTurnPause is the pause before a turn of services is checked again without a change: the
// end of the drain causes no change.
const serviceTurnPause = time.Second

// outOfService records since when a node is out of service for its turn.
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

// turn returns the progress of the node's turn.
//
//revive:disable-next-line:flag-parameter it is a fact
func (o *outOfService) turn(has bool) protocol.ServiceTurn {
	switch {
	case !has:
		return protocol.NoServiceTurn
	case o.since.IsZero():
		return protocol.ServiceTurnAfter(0)
	default:
		return protocol.ServiceTurnAfter(time.Since(o.since))
	}
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

// whilePending returns a context that ends when no service waits for a turn any longer.
func (a *App) whilePending(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends with limited
		defer close(ended)
		for now, next := a.roles.Pending().Load(); now != ""; now, next = a.roles.Pending().Load() {
			if !event.Wait(limited, next) {
				return
			}
		}
		cancel()
	}()
	return limited, func() { cancel(); <-ended }
}

// takeServiceTurn waits for a turn while services need it, and takes it.
func (a *App) takeServiceTurn(ctx context.Context, pending string) {
	limited, cancel := a.whilePending(ctx)
	defer cancel()
	now, last := time.Now().UTC(), ""
	_, err := fleet.AwaitTurn(limited, a.etcd, fleet.TurnWait{
		Want: protocol.Turn{
			Node: a.id.node, Since: now, Until: now.Add(protocol.TurnTime), Message: pending,
			By: "the sidecar", Kind: protocol.TurnOfServices, BootID: a.id.bootID,
		},
		// Etcd keeps running while services restart, so its members do not matter.
		Voters: func() []protocol.TurnVoter { return nil }, Followed: a.follower.Fleet(),
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

// finishServices ends the turn when all services are ready with the content of their files.
func (a *App) finishServices(ctx context.Context, t protocol.Turn) {
	if t.Work != protocol.TurnWorkDone && !a.roles.Changed() {
		return
	}
	if err := a.endTurn(ctx, t); err != nil && !errors.Is(err, fleet.ErrNoTurn) && ctx.Err() == nil {
		a.log.Warn("the turn of the services is not ended yet, trying again", "err", err)
	}
}
