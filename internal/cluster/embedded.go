package cluster

import (
	"context"
	"errors"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
)

// runEmbedded runs the flow that the data directory needs, then keeps the workers and the
// member of this node running until ctx ends.
func (m *Manager) runEmbedded(ctx context.Context) error {
	cfg := *m.cfg.Embedded
	state, name, steps := choose(&cfg)
	if err := m.enter(state); err != nil {
		return err
	}
	f := flowOf(newParts(&cfg, m.cfg.Client, m.cfg.Log, m.shared, process{show: m.show, state: m.member, measures: m.measures}), m.held)
	err := f.carryOut(ctx, name, append([]step{{"address", awaitAddress}}, steps...))
	if err == nil {
		err = m.keepRunning(ctx, f.parts)
	} else {
		err = m.fail(err)
	}
	return errors.Join(err, f.close())
}

// keepRunning keeps the state Running, and lets steps about the member be taken, until ctx
// ends or the cluster removes the member.
func (m *Manager) keepRunning(ctx context.Context, p parts) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := newNode(p, m.observed, m.showProblem, ctx.Done())
	m.node.Store(n)
	err := m.enter(Running)
	if err == nil {
		err = n.live(ctx, m.answerJoins, m.keeper.Run, func(ctx context.Context) error {
			return n.rotate(ctx, m.rotation.Set, m.cfg.AwaitServices)
		})
	}
	cancel() // the step that is being taken
	n.end()
	return err
}

// choose returns the flow for the directory as it is. It does not lock the directory: the first step does,
// and checks it. So one that cannot be read counts as one that exists.
func choose(cfg *Embedded) (State, string, []step) {
	marker, err := datadir.Layout(cfg.DataDir).ReadMarker()
	begun := err == nil && (marker.Phase == datadir.Begun || marker.Phase == datadir.Enrolled)
	switch {
	case err != nil && !errors.Is(err, datadir.ErrNoMarker):
		return RestartingMember, "restart", restartSteps()
	case errors.Is(err, datadir.ErrNoMarker) && cfg.Join == "", begun && marker.Intent == datadir.Create:
		return CreatingCluster, "create", createSteps()
	case errors.Is(err, datadir.ErrNoMarker), begun && marker.Intent == datadir.Join:
		return JoiningCluster, "join", joinSteps()
	case marker.Phase.Changing(), marker.Phase == datadir.WithoutMember:
		return RestartingMember, "return", returnSteps()
	}
	return RestartingMember, "restart", restartSteps()
}
