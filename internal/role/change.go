package role

import (
	"context"
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
	var shut outOfService // the gate
	for {
		stops, stopped := s.stopping.Load()
		found, foundChanged := s.found.Load()
		values, valuesChanged := s.cfg.Services.Variables.Load()
		now, turnChanged := s.turn.Load()
		state, stateChanged := s.supervised.State().Load()
		gate, gateChanged := s.gate.Shown().Load()
		facts := nodeservices.RestartFacts{Draining: now.draining, Alone: now.alone, Stops: stops}
		if shut.observe(!gate.Ready); !gate.Ready {
			facts.Closed = shut.duration() + 1 // not 0, which is an open gate
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
		pending := ""
		if len(names) > 0 {
			pending = "start again what has changed: " + strings.Join(names, ", ")
		}
		event.SetIfNew(s.pending, pending)
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

// identical reports whether two services are equal and come from the same file.
func identical(a, b service.Service) bool {
	return a.Equal(b) && a.Source == b.Source && a.Restart == b.Restart
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
