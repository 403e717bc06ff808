package role

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/role/service"
)

// Turn is what a Server knows of turns for its services.
type Turn struct {
	Has protocol.ServiceTurn
	// Alone: no other controller is registered, as far as is known.
	Alone bool
}

// Pending follows which services have changed and wait for a turn, for people; empty: none.
func (s *Server) Pending() *event.Value[string] { return s.pending }

// keepLoaded puts the services of the directory into use, until ctx ends: those that clients use
// wait for a turn of this node (docs/protocol.md#service-turns).
func (s *Server) keepLoaded(ctx context.Context) error {
	for {
		found, foundChanged := s.found.Load()
		turn, turnChanged := s.cfg.Turn.Load()
		state, stateChanged := s.supervised.State().Load()
		gate, gateChanged := s.cfg.Displayed.Load()
		// The cordon of a turn closes the gate, and may be seen there before the turn is here.
		if t, ok := s.cfg.Registrar.Fleet.Get().Turns.Of(s.cfg.Node); ok && t.Kind == protocol.TurnOfServices {
			turn.Has = max(turn.Has, protocol.ServiceTurnTaken)
		}
		next, names := service.Held(protocol.RoleController, s.loaded.Get(), found)
		restart := protocol.JudgeRestart(protocol.RestartFacts{
			Turn: turn.Has, Alone: turn.Alone, Serving: state.Used(names), GateClosed: !gate.Ready,
		})
		if restart == protocol.RestartNow {
			next, names = found, nil
		}
		// In this order: without anything pending, loaded is all that has to be ready.
		if !slices.EqualFunc(next, s.loaded.Get(), identical) {
			s.loaded.Set(next)
		}
		set(s.pending, waiting(names))
		if !event.Wait(ctx, foundChanged, turnChanged, stateChanged, gateChanged) {
			return ctx.Err()
		}
	}
}

// identical reports whether two services are the same, of the same file.
func identical(a, b service.Service) bool {
	return a.Equal(b) && a.Source == b.Source && a.Restart == b.Restart
}

func waiting(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("start again what has changed: %s", strings.Join(names, ", "))
}

// Changed reports whether all services of the controller role are ready as the directory has
// them, and none waits.
func (s *Server) Changed() bool {
	if s.pending.Get() != "" {
		return false
	}
	wanted := service.OfRole(s.supervised.expanded(s.cfg.Variables.Get()), protocol.RoleController)
	return s.supervised.State().Get().Unready(wanted) == ""
}
