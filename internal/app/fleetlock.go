package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
)

// fleetLock takes turns for an agent that reboots this machine. It implements httpapi.FleetLock.
type fleetLock struct{ a *App }

// lockPatience is how long one request waits for the turn. An agent asks again after minutes.
const lockPatience = 5 * time.Second

// agentTurn returns the turn that an agent asks for.
func (l fleetLock) agentTurn(agent string) protocol.Turn {
	now := time.Now().UTC()
	return protocol.Turn{
		Node: l.a.id.node, Since: now, Until: now.Add(protocol.TurnTime), Message: "an agent reboots the machine",
		By: "agent " + agent, Kind: protocol.TurnOfAgent, BootID: l.a.id.bootID,
	}
}

// PreReboot implements httpapi.FleetLock. An agent that already holds the turn gets it again.
func (l fleetLock) PreReboot(ctx context.Context, agent string) error {
	want := l.agentTurn(agent)
	why := ""
	limited, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	answer, err := fleet.AwaitTurn(limited, l.a.etcd, fleet.TurnWait{
		Want: want, Followed: l.a.follower.Fleet(),
		Voters:  func() []protocol.TurnVoter { return l.a.turnVoters() },
		Changed: func() <-chan struct{} { return changed(l.a.cluster.Members().Load()) },
		Told:    func(a protocol.TurnAnswer, _ protocol.Turns) { why = a.Message },
	})
	switch {
	case err != nil && why != "" && ctx.Err() == nil:
		return &httpapi.LockRefused{Reason: why}
	case err != nil:
		return err
	case answer.Verdict == protocol.TurnNotController:
		return &httpapi.LockRefused{Reason: answer.Message}
	}
	f, err := fleet.ReadTurns(ctx, l.a.etcd)
	if err != nil {
		return err
	}
	has, found := f.Turns.Of(want.Node)
	switch {
	case !found:
		return &httpapi.LockRefused{Reason: "the turn of this node has just ended; ask again"}
	case has.Kind != want.Kind || has.By != want.By:
		return &httpapi.LockRefused{Reason: has.String()}
	case has.Work == protocol.TurnWorkDone:
		return &httpapi.LockRefused{Reason: fmt.Sprintf("node %q has to serve again first, after its turn of before", want.Node)}
	}
	return l.awaitOut(ctx, has)
}

// awaitOut returns when this node is out of service, and its turn is at least nodeservices.TurnDrain old.
func (l fleetLock) awaitOut(ctx context.Context, has protocol.Turn) error {
	for {
		now, fleetChanged := l.a.follower.Fleet().Load()
		published, publishedChanged := l.a.published()
		out := isOut(now, has.Node) && !published
		left := nodeservices.TurnDrain - time.Since(has.Since)
		if out && left <= 0 {
			return nil
		}
		var over <-chan time.Time
		if left > 0 {
			over = time.After(left)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-fleetChanged:
		case <-publishedChanged:
		case <-over:
		}
	}
}

// SteadyState implements httpapi.FleetLock. The sidecar ends the turn when the node serves.
func (l fleetLock) SteadyState(ctx context.Context, agent string) error {
	f, err := fleet.ReadTurns(ctx, l.a.etcd)
	if err != nil {
		return err
	}
	has, found := f.Turns.Of(l.a.id.node)
	if want := l.agentTurn(agent); !found || has.Kind != want.Kind || has.By != want.By {
		return nil // it holds nothing
	}
	if err := fleet.SetTurnWork(ctx, l.a.etcd, l.a.id.node, protocol.TurnWorkDone); err != nil && !errors.Is(err, fleet.ErrNoTurn) {
		return err
	}
	return nil
}

// turnVoters returns the voters of the etcd that the sidecars run.
func (a *App) turnVoters() []protocol.TurnVoter {
	var out []protocol.TurnVoter
	for _, m := range a.cluster.Members().Get() {
		if !m.Learner {
			out = append(out, protocol.TurnVoter{Node: protocol.NodeID(m.Node), Answers: m.Healthy})
		}
	}
	return out
}
