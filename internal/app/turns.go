package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/protocol"
)

// turnRetry is the pause before a turn that does not end is checked again without a change.
const turnRetry = 5 * time.Second

// keepTurns ends the turn of a reboot when this machine runs again and the node serves, until ctx
// ends. The command that took the turn ended with the machine, and an agent that rebooted it only
// reports that.
func (a *App) keepTurns(ctx context.Context) error {
	for {
		now, fleetChanged := a.follower.Fleet().Load()
		_, membersChanged := a.cluster.Members().Load()
		var again <-chan time.Time
		t, found := now.Turns.Of(a.id.node)
		reported := t.Kind == protocol.TurnOfAgent && t.Work == protocol.TurnWorkDone
		if found && (reported || t.Rebooted(a.id.bootID)) {
			if err := a.endTurn(ctx, t); err != nil && !errors.Is(err, fleet.ErrNoTurn) && ctx.Err() == nil {
				a.log.Warn("the turn of a reboot is not ended yet, trying again", "err", err)
			}
			again = time.After(turnRetry)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-fleetChanged:
		case <-membersChanged:
		case <-again:
		}
	}
}

// endTurn takes the next step for a turn whose work is done.
func (a *App) endTurn(ctx context.Context, t protocol.Turn) error {
	if t.Work != protocol.TurnWorkDone {
		a.log.Info("the work of this node's turn is done, which ends when this node serves", "kind", t.Kind)
		if err := fleet.SetTurnWork(ctx, a.etcd, t.Node, protocol.TurnWorkDone); err != nil {
			return err
		}
	}
	action, err := fleet.AdvanceTurn(ctx, a.etcd, t.Node, a.votes())
	if err == nil && action == protocol.EndTurn {
		a.log.Info("the turn of this node has ended")
	}
	return err
}

// votes reports whether this node's voting member is healthy, or there is none.
func (a *App) votes() bool {
	return !slices.ContainsFunc(a.cluster.Members().Get(), func(m cluster.Observed) bool {
		return m.Node == string(a.id.node) && !m.Learner && !m.Healthy
	})
}
