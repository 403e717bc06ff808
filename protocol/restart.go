package protocol

// This file decides when a service whose file has changed is started again
// (docs/protocol.md#service-turns).

// ServiceTurn is how far the turn is that a node has for its services.
type ServiceTurn int

// How far it is.
const (
	// NoServiceTurn: the node has no turn for its services.
	NoServiceTurn ServiceTurn = iota
	// ServiceTurnTaken: it has one, and clients may still use the node.
	ServiceTurnTaken
	// ServiceTurnDrained: it has one, and is out of service.
	ServiceTurnDrained
)

// RestartFacts are what a sidecar knows when files of its services have changed.
type RestartFacts struct {
	Turn ServiceTurn
	// Serving: a service that would stop runs, and has been ready.
	Serving bool
	// GateClosed: the gate of the node is closed, and /readyz shows it.
	GateClosed bool
	// Alone: no other controller is registered.
	Alone bool
}

// Restart is what follows for the services that have changed.
type Restart int

// What follows.
const (
	_ Restart = iota
	// RestartNow: they are started again.
	RestartNow
	// RestartDrains: the node has its turn, and clients may still use it.
	RestartDrains
	// RestartInTurn: the node needs a turn first.
	RestartInTurn
)

// JudgeRestart decides whether services that have changed are started again now.
func JudgeRestart(f RestartFacts) Restart {
	switch {
	case f.Turn == ServiceTurnDrained:
		return RestartNow
	case f.Turn == ServiceTurnTaken:
		// Before the gate is asked: it is closed because of this turn, and clients may not have
		// noticed yet.
		return RestartDrains
	case !f.Serving:
		// Nothing that clients use stops. The change may be what repairs it, on all nodes.
		return RestartNow
	case f.GateClosed:
		// People have cordoned it, or have its turn.
		return RestartNow
	case f.Alone:
		// No node would serve meanwhile, whatever it waits for.
		return RestartNow
	default:
		return RestartInTurn
	}
}
