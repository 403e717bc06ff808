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
	// RestartDrains: clients may still use the node, and are leaving it.
	RestartDrains
	// RestartInTurn: the node needs a turn first.
	RestartInTurn
)

// JudgeRestart decides whether services that changed are started again now.
func JudgeRestart(f RestartFacts) Restart {
	switch {
	case !f.Serving:
		// Nothing that clients use stops. The change may be the repair, on all nodes. In a turn, too:
		// a change that waits means that nothing was stopped, so the turn may be given back.
		return RestartNow
	case f.Turn == ServiceTurnTaken:
		// Before the gate is asked: it is closed because of this turn, and clients may not have
		// noticed yet.
		return RestartDrains
	case f.Closed >= TurnDrain:
		// In its turn, or people cordoned it: clients left.
		return RestartNow
	case f.Closed > 0:
		// Clients may not have noticed yet. The gate may also close before the turn that closed it
		// is known here.
		return RestartDrains
	case f.Alone:
		// Waiting gains nothing: no other node could serve meanwhile.
		return RestartNow
	default:
		// Also in a turn that was drained: the gate has opened since.
		return RestartInTurn
	}
}

// ServiceTurnFacts are the facts about a node's turn for its services.
type ServiceTurnFacts struct {
	Held     bool     // by the services of this node
	Other    bool     // the node holds a turn of another kind
	Work     TurnWork // of the turn
	Cordoned bool     // the node, by its turn or by people
	// Pending: services that changed wait for a turn.
	Pending bool
	// Alone: no other controller is registered.
	Alone bool
	// Ready: no service waits, and all run as in their files and are ready.
	Ready bool
	// Failing: a service that must be ready keeps ending, or does not become ready in time
	// (FailingServices).
	Failing bool
}

// ServiceTurnAction is the next action of a node about the turn for its services.
type ServiceTurnAction int

// The actions.
const (
	_ ServiceTurnAction = iota
	// RestServiceTurn: no turn is needed, or its work is under way.
	RestServiceTurn
	// AskServiceTurn: wait for a turn, and take it.
	AskServiceTurn
	// GiveBackServiceTurn: end the turn, in which nothing was stopped yet.
	GiveBackServiceTurn
	// FailServiceTurn: record that the work failed. The turn is kept.
	FailServiceTurn
	// ContinueServiceTurn: record that the work is under way again.
	ContinueServiceTurn
	// FinishServiceTurn: record that the work is done, return to service, and end the turn.
	FinishServiceTurn
)

// NextServiceTurnAction decides the next action (docs/protocol.md#service-turns).
func NextServiceTurnAction(f ServiceTurnFacts) ServiceTurnAction {
	switch {
	case !f.Held && f.Pending && !f.Alone && !f.Other:
		return AskServiceTurn
	case !f.Held:
		return RestServiceTurn
	case f.Ready:
		return FinishServiceTurn
	case f.Failing && !f.Pending && f.Work != TurnWorkFailed:
		// Before work that is done: the file may have changed again since.
		return FailServiceTurn
	case f.Pending && !f.Cordoned:
		// People ended the cordon before the services stopped, or the file changed again at the end
		// of the turn. The node takes another turn, with another cordon. Before work that is done: a
		// service may have broken since, and the change may be its repair.
		return GiveBackServiceTurn
	case f.Work == TurnWorkDone:
		return FinishServiceTurn
	case !f.Failing && f.Work == TurnWorkFailed:
		// The file was repaired.
		return ContinueServiceTurn
	default:
		return RestServiceTurn
	}
}
