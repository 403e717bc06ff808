package role

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
)

// keepLoaded puts changes of the services directory and of variables into use until ctx ends. Services that clients
// use wait for this node's turn (docs/protocol-nodes.md#service-turns).
func (s *Server) keepLoaded(ctx context.Context) error {
	var closedSince time.Time // since when the gate is closed; zero: it is open
	for {
		stops, stopped := s.stopping.Load()
		found, foundChanged := s.found.Load()
		values, valuesChanged := s.cfg.Services.Variables.Load()
		now, turnChanged := s.turn.Load()
		state, stateChanged := s.supervised.State().Load()
		gate, gateChanged := s.gate.Shown().Load()
		facts := nodeservices.RestartFacts{Draining: now.draining, Alone: now.alone, Stops: stops}
		if gate.Ready {
			closedSince = time.Time{}
		} else {
			closedSince = firstTime(closedSince, time.Now())
			facts.Closed = time.Since(closedSince) + 1 // not 0, which is an open gate
		}
		next, names := service.Held(protocol.RoleController, s.loaded.Get(), found)
		variables, trusting := service.HeldVariables(protocol.RoleController, s.loaded.Get(), s.variables.Get(), values)
		names = slices.Compact(slices.Sorted(slices.Values(append(names, trusting...))))
		facts.Serving = state.Used(names)
		switch nodeservices.JudgeRestart(facts) {
		case nodeservices.RestartNow:
			next, variables, names = found, values, nil
			// Before the services stop: the cordon may end just now.
			event.SetIfNew(s.changing, s.changing.Get() || facts.Serving && facts.Closed > 0)
		case nodeservices.RestartNever:
			next = s.loaded.Get()
		case nodeservices.RestartDrains, nodeservices.RestartInTurn:
		}
		// In this order: when nothing is pending, all services that must be ready are in loaded.
		if !slices.EqualFunc(next, s.loaded.Get(), identical) {
			s.loaded.Set(next)
		}
		event.SetIfNew(s.variables, variables)
		event.SetIfNew(s.pending, waiting(names))
		if s.changing.Get() && s.changed() {
			s.changing.Set(false)
		}
		var again time.Duration
		if len(names) > 0 {
			again = max(0, nodeservices.NextJudgement(facts.Closed))
		}
		if !event.WaitFor(ctx, again, foundChanged, valuesChanged, turnChanged, stateChanged, gateChanged, stopped) {
			return ctx.Err()
		}
	}
}

// firstTime returns was, or if that is zero, now.
func firstTime(was, now time.Time) time.Time {
	if was.IsZero() {
		return now
	}
	return was
}

// identical reports whether two services are equal and come from the same file.
func identical(a, b service.Service) bool {
	return a.Equal(b) && a.Source == b.Source && a.Restart == b.Restart
}

func waiting(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("start again what has changed: %s", strings.Join(names, ", "))
}

// changed reports whether all services of the controller role are ready with the current content of
// the directory, and none waits for a turn.
func (s *Server) changed() bool {
	if s.pending.Get() != "" {
		return false
	}
	wanted := service.OfRole(s.supervised.expanded(s.variables.Get()), protocol.RoleController)
	return s.supervised.State().Get().Unready(wanted) == ""
}
