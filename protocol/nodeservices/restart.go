package nodeservices

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// This file decides when a service whose file changed is started again
// (docs/protocol-nodes.md#service-turns).

// TurnDrain is how long a node is out of service in its turn before its services restart or its machine
// reboots, and the default of sidecar turn --drain.
const TurnDrain = 5 * time.Second

// Draining reports whether clients may still use a node that holds a turn for its services. out is how
// long it is out of service; 0: it is in service.
func Draining(out time.Duration) bool { return out < TurnDrain }

// RestartFacts are the facts that a sidecar knows when files of its services changed.
type RestartFacts struct {
	Draining bool // the node holds a turn for its services, and clients may still use it (Draining)
	// Serving: a service that would stop runs, and was ready.
	Serving bool
	// Closed is how long the gate of the node is closed, and /readyz shows it; 0: it is open.
	Closed time.Duration
	// Alone: no other controller is registered.
	Alone bool
	// Stops: the sidecar is being stopped, which stops the services in an order of its own.
	Stops bool
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
	// RestartNever: all services stay as they are until they are stopped.
	RestartNever
)

// JudgeRestart decides whether services that changed are started again now.
func JudgeRestart(f RestartFacts) Restart {
	switch {
	case f.Stops:
		// Before the gate is asked: it is closed for the delay of the stop, in which clients leave.
		return RestartNever
	case !f.Serving:
		// Nothing that clients use stops. The change may be the repair, on all nodes. In a turn, too:
		// a change that waits means that nothing was stopped, so the turn may be given back.
		return RestartNow
	case f.Draining && f.Closed < TurnDrain+MaxAwaitAddress:
		// Before the gate is asked: it is closed because of this turn, and clients may not have
		// noticed yet. With a limit: a kube-apiserver that hangs never shows that its address has left
		// the Service, and the change may be its repair.
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

// NextJudgement returns the time until JudgeRestart may decide otherwise about a gate that has been closed
// for this long, if nothing else changes. 0: it will not, or the gate is open.
func NextJudgement(closed time.Duration) time.Duration {
	switch {
	case closed == 0:
		return 0
	case closed < TurnDrain:
		return TurnDrain - closed
	default:
		return max(0, TurnDrain+MaxAwaitAddress-closed)
	}
}

// TurnFacts are the facts about a node's turn for its services.
type TurnFacts struct {
	Held     bool              // by the services of this node
	Other    bool              // the node holds a turn of another kind
	Work     protocol.TurnWork // of the turn
	Cordoned bool              // the node, by its turn or by people
	// Pending: services that changed wait for a turn.
	Pending bool
	// Alone: no other controller is registered.
	Alone bool
	// Stops: the sidecar is being stopped.
	Stops bool
	// Ready: no service waits, and all run as in their files and are ready.
	Ready bool
	// OthersOut: another node stopped serving since the turn was taken, and no service stopped in it yet.
	OthersOut bool
	// NoRole: people have taken the controller role from the node.
	NoRole bool
	// Failing: a service that must be ready keeps ending, or does not become ready in time
	// (Failing).
	Failing bool
}

// TurnAction is the next action of a node about the turn for its services.
type TurnAction int

// The actions.
const (
	_ TurnAction = iota
	// RestTurn: no turn is needed, or its work is under way.
	RestTurn
	// AskTurn: wait for a turn, and take it.
	AskTurn
	// GiveBackTurn: end the turn, in which nothing was stopped yet.
	GiveBackTurn
	// FailTurn: record that the work failed. The turn is kept.
	FailTurn
	// ContinueTurn: record that the work is under way again.
	ContinueTurn
	// FinishTurn: record that the work is done, return to service, and end the turn.
	FinishTurn
)

// NextTurnAction decides the next action (docs/protocol-nodes.md#service-turns).
func NextTurnAction(f TurnFacts) TurnAction {
	switch {
	case !f.Held && f.Pending && !f.Alone && !f.Other && !f.Stops:
		// A sidecar that stops would keep the turn until it runs again, or people end it.
		return AskTurn
	case !f.Held:
		return RestTurn
	case f.Ready, f.NoRole:
		// Without the role nothing is left to do, and its services never become ready.
		return FinishTurn
	case f.Failing && !f.Pending && f.Work != protocol.TurnWorkFailed:
		// Before work that is done: the file may have changed again since.
		return FailTurn
	case f.Pending && f.OthersOut:
		// Two would be out.
		return GiveBackTurn
	case f.Pending && !f.Cordoned:
		// People ended the cordon before the services stopped, or the file changed again at the end
		// of the turn. The node takes another turn, with another cordon. Before work that is done: a
		// service may have broken since, and the change may be its repair.
		return GiveBackTurn
	case f.Work == protocol.TurnWorkDone:
		return FinishTurn
	case !f.Failing && f.Work == protocol.TurnWorkFailed:
		// The file was repaired.
		return ContinueTurn
	default:
		return RestTurn
	}
}
