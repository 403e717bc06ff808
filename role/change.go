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

// Turn is this node's turn to change its services, as the Server knows it.
type Turn struct {
	Has protocol.ServiceTurn
	// Alone: no other registered controller is known.
	Alone bool
}

// Pending follows which changed services wait for a turn, for people; empty: none.
func (s *Server) Pending() *event.Value[string] { return s.pending }

// keepLoaded puts changes of the services directory into use until ctx ends. Services that clients
// use wait for this node's turn (docs/protocol.md#service-turns).
func (s *Server) keepLoaded(ctx context.Context) error {
	for {
		found, foundChanged := s.found.Load()
		turn, turnChanged := s.cfg.Turn.Load()
		state, stateChanged := s.supervised.State().Load()
		gate, gateChanged := s.cfg.Displayed.Load()
		// The cordon of a turn closes the gate. The gate may close before Turn reports the turn.
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
		// In this order: when nothing is pending, all services that must be ready are in loaded.
		if !slices.EqualFunc(next, s.loaded.Get(), identical) {
			s.loaded.Set(next)
		}
		set(s.pending, waiting(names))
		if !event.Wait(ctx, foundChanged, turnChanged, stateChanged, gateChanged) {
			return ctx.Err()
		}
	}
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

// Changed reports whether all services of the controller role are ready with the current content of
// the directory, and none waits for a turn.
func (s *Server) Changed() bool {
	if s.pending.Get() != "" {
		return false
	}
	wanted := service.OfRole(s.supervised.expanded(s.cfg.Variables.Get()), protocol.RoleController)
	return s.supervised.State().Get().Unready(wanted) == ""
}
