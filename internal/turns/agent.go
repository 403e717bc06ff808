package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

// This file takes turns for an agent that reboots this machine (docs/operations.md#fleetlock).

// Refused is why an agent may not reboot now.
type Refused struct{ Reason string }

func (e *Refused) Error() string { return e.Reason }

// patience is how long one request waits for the turn. An agent asks again after minutes.
const patience = 5 * time.Second

// ofAgent returns the turn that an agent asks for.
func (n *Node) ofAgent(agent string) protocol.Turn {
	return n.want(protocol.TurnOfAgent, "agent "+agent, "an agent reboots the machine")
}

// PreReboot returns when the agent may reboot the machine. An agent that already holds the turn gets
// it again. It returns a *Refused if the agent may not reboot now.
func (n *Node) PreReboot(ctx context.Context, agent string) error {
	want := n.ofAgent(agent)
	why := ""
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := fleet.AwaitTurn(limited, n.cfg.Client, fleet.TurnWait{
		Want: want, Followed: n.cfg.Fleet,
		Voters:  func() []protocol.Voter { voters, _ := n.cfg.Voters(); return voters },
		Changed: func() <-chan struct{} { _, changed := n.cfg.Voters(); return changed },
		Told:    func(a nodeturns.Answer, _ protocol.Fleet) { why = a.Message },
	})
	switch {
	case err != nil && why != "" && ctx.Err() == nil:
		return &Refused{Reason: why}
	case err != nil:
		return err
	case answer.Verdict == nodeturns.NotController:
		return &Refused{Reason: answer.Message}
	}
	return n.awaitOut(ctx, func() error { return n.mayWork(ctx, want) })
}

// mayWork returns nil if this node has the turn of an agent, whose work is not done. Want is a turn of that agent.
func (n *Node) mayWork(ctx context.Context, want protocol.Turn) error {
	f, err := fleet.List(ctx, n.cfg.Client)
	if err != nil {
		return err
	}
	voters, _ := n.cfg.Voters()
	answer := nodeturns.JudgeWork(nodeturns.WorkFacts{Fleet: f, Voters: voters, Mine: want.SameOwner}, want.Node)
	switch has := answer.Turn; {
	case answer.Verdict == nodeturns.TurnOver && has.Node == "":
		return &Refused{Reason: "the turn of this node has just ended; ask again"}
	case answer.Verdict == nodeturns.TurnOver:
		return &Refused{Reason: has.String()}
	case answer.Verdict == nodeturns.WorkOver:
		return &Refused{Reason: fmt.Sprintf("node %q has to serve again first, after its turn of before", want.Node)}
	case answer.Verdict == nodeturns.CordonEnded:
		// It serves, and would wait for ever: a turn that goes on gets no other cordon.
		return n.refuseAndGiveBack(ctx, has, fmt.Sprintf("people have ended the cordon of node %q", want.Node))
	case answer.Verdict == nodeturns.OthersOut:
		return n.refuseAndGiveBack(ctx, has, answer.Message)
	}
	return nil
}

// refuseAndGiveBack gives a turn back in which the machine was not rebooted.
func (n *Node) refuseAndGiveBack(ctx context.Context, t protocol.Turn, why string) error {
	if err := fleet.GiveTurnBack(ctx, n.cfg.Client, t); err != nil && !errors.Is(err, fleet.ErrNoTurn) {
		return err
	}
	return &Refused{Reason: why + ", so this node has given its turn back; ask again"}
}

// awaitOut returns when this node has been out of service for nodeservices.TurnDrain, or the error of may, which it asks
// after each change and at the end: people may end the turn meanwhile.
func (n *Node) awaitOut(ctx context.Context, may func() error) error {
	var since time.Time // by the monotonic clock; zero: clients may use the node
	for {
		now, fleetChanged := n.cfg.Fleet.Load()
		out, publishedChanged := n.Out(now)
		var left time.Duration
		switch {
		case !out:
			since = time.Time{}
		case since.IsZero():
			since, left = time.Now(), nodeservices.TurnDrain
		default:
			left = nodeservices.TurnDrain - time.Since(since)
		}
		if err := may(); err != nil || out && left <= 0 {
			return err
		}
		if !event.WaitFor(ctx, left, fleetChanged, publishedChanged) {
			return ctx.Err()
		}
	}
}

// SteadyState learns that the agent has rebooted the machine. The sidecar ends the turn when the node serves.
func (n *Node) SteadyState(ctx context.Context, agent string) error {
	f, err := fleet.List(ctx, n.cfg.Client)
	if err != nil {
		return err
	}
	has, found := f.Turns.Of(n.cfg.Node)
	if !found || !has.SameOwner(n.ofAgent(agent)) {
		return nil // it holds nothing
	}
	if err := fleet.SetTurnWork(ctx, n.cfg.Client, has, protocol.TurnWorkDone); err != nil && !errors.Is(err, fleet.ErrNoTurn) {
		return err
	}
	return nil
}
