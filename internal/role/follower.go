package role

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// follower starts and stops the services of a role whose order does not depend on the gate. It
// reads the roles, and writes no value.
type follower struct {
	role     string
	services Services
	roles    *event.Value[Local]
	stopping *event.Value[bool]
	stopped  *event.Value[bool] // stopping, and none of its services runs
	log      *slog.Logger
}

func newFollower(role string, services Services, roles *event.Value[Local], log *slog.Logger) *follower {
	return &follower{role: role, services: services, roles: roles, stopping: event.New(false), stopped: event.New(false), log: log}
}

// run starts and stops the services until ctx ends, and returns ctx's error.
func (f *follower) run(ctx context.Context) error {
	started := false
	for {
		local, rolesChanged := f.roles.Load()
		stopping, stoppingChanged := f.stopping.Load()
		var again time.Duration
		switch {
		case stopping && !started: // an earlier sidecar's services stay
			event.SetIfNew(f.stopped, true)
		case !stopping && local.Known() && has(local.Roles, f.role):
			started = true
			f.services.Start()
		case stopping || local.Known():
			if err := f.services.Stop(ctx); err != nil {
				f.log.Error("services not stopped, trying again", "role", f.role, "err", err)
				again = retryPause
				break
			}
			started = false
			event.SetIfNew(f.stopped, stopping)
		}
		if !event.WaitFor(ctx, again, rolesChanged, stoppingChanged) {
			return ctx.Err()
		}
	}
}

// endStarts prevents any further start.
func (f *follower) endStarts() { f.stopping.Set(true) }

// stop stops the services, and returns when all have ended. Nothing starts after it.
func (f *follower) stop(ctx context.Context) error {
	f.endStarts()
	return event.Until(ctx, f.stopped, event.Is)
}

// has reports whether roles contains role.
func has(roles protocol.Roles, role string) bool { return slices.Contains(roles.Names(), role) }
