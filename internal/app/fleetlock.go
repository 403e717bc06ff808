package app

import (
	"context"
	"errors"

	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/turns"
)

// fleetLock adapts the turns of this node to the HTTP API.
type fleetLock struct{ *turns.Node }

func (a *App) fleetLock() httpapi.FleetLock {
	if a.cfg.NoFleetLock {
		return nil
	}
	return fleetLock{a.turns}
}

// PreReboot implements httpapi.FleetLock.
func (l fleetLock) PreReboot(ctx context.Context, agent string) error {
	err := l.Node.PreReboot(ctx, agent)
	if answer, is := errors.AsType[*turns.Refused](err); is {
		return &httpapi.LockRefused{Reason: answer.Reason}
	}
	return err
}
