package protocol

import "time"

// This file decides when a service whose file changed is started again
// (docs/protocol.md#service-turns).

// ServiceTurn is the progress of a node's turn for its services.
type ServiceTurn int

// The values.
const (
	// NoServiceTurn: the node holds no turn for its services.
	NoServiceTurn ServiceTurn = iota
	// ServiceTurnTaken: it holds one, and clients may still use the node.
	ServiceTurnTaken
	// ServiceTurnDrained: it holds one, and is out of service.
	ServiceTurnDrained
)

// TurnDrain is how long a node is out of service in its turn before its services restart or its machine
// reboots, and the default of sidecar turn --drain.
const TurnDrain = 5 * time.Second

// ServiceTurnAfter returns the progress of the turn that a node has for its services. out is how long
// the node has been out of service; 0: clients may use it.
func ServiceTurnAfter(out time.Duration) ServiceTurn {
	if out < TurnDrain {
		return ServiceTurnTaken
	}
	return ServiceTurnDrained
}

// RestartFacts are the facts that a sidecar knows when files of its services changed.
type RestartFacts struct {
	Turn ServiceTurn
	// Serving: a service that would stop runs, and has been ready.
	Serving bool
	// Closed is how long the gate of the node has been closed, and /readyz shows it; 0: it is open.
	Closed time.Duration
	// Alone: no other controller is registered.
	Alone bool
}

// Restart is the decision about the services that changed.
type Restart int

// The decisions.
const (
	_ Restart = iota
	// RestartNow: they are started again.
	RestartNow
	// RestartDrains: the node holds its turn, and clients may still use it.
	RestartDrains
	// RestartInTurn: the node needs a turn first.
	RestartInTurn
)

// JudgeRestart decides whether services that changed are started again now.
func JudgeRestart(f RestartFacts) Restart {
	switch {
	case f.Turn == ServiceTurnDrained:
		return RestartNow
	case f.Turn == ServiceTurnTaken:
		// Before the gate is asked: it is closed because of this turn, and clients may not have
		// noticed yet.
		return RestartDrains
	case !f.Serving:
		// Nothing that clients use stops. The change may be the repair, on all nodes.
		return RestartNow
	case f.Closed >= TurnDrain:
		// People cordoned it, or hold its turn, and clients left.
		return RestartNow
	case f.Closed > 0:
		// Clients may not have noticed yet. The gate may also close before the turn that closed it
		// is known here.
		return RestartDrains
	case f.Alone:
		// Waiting gains nothing: no other node could serve meanwhile.
		return RestartNow
	default:
		return RestartInTurn
	}
}
