package show

import (
	"cmp"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// endpointNow returns the endpoint for the presence.
func (s *Show) endpointNow() protocol.Endpoint {
	out := s.cfg.Endpoint
	if out.TakesPart() {
		out.Down = s.APIServer.Down()
	}
	return out
}

// endpointsWarnings returns the problems of the Service that an operator has to fix. Each node finds NotPublishing in the
// fleet (protocol/upgrade).
func (s *Show) endpointsWarnings() []protocol.Warning {
	now := s.Endpoints.Get()
	switch reason := protocol.Reason(now.Reason); reason {
	case protocol.OtherStore, protocol.ReconcilerRuns, protocol.OtherWriter:
		return []protocol.Warning{{Reason: reason, Message: "Service kubernetes: " + now.Message, Since: now.Since.Time}}
	case publish.Pending, publish.EndpointsUnread:
		if now.Problem != "" {
			message := "Service kubernetes: " + cmp.Or(now.Problem, now.Message)
			return []protocol.Warning{{Reason: reason, Message: message, Since: now.Since.Time}}
		}
	default:
	}
	return nil
}
