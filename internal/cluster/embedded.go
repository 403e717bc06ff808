package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
)

// runEmbedded runs the flow that the data directory needs, then keeps the workers and the
// member of this node running until ctx ends.
func (m *Manager) runEmbedded(ctx context.Context) error {
	cfg := *m.cfg.Embedded
	state, name, steps := choose(&cfg)
	m.enter(state)
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
	n := newNode(p, m.observed, m.Trouble, ctx.Done())
	m.node.Store(n)
	m.enter(Running)
	err := n.live(ctx, m.answerJoins, m.keeper.Run, func(ctx context.Context) error {
		return n.rotate(ctx, m.rotation.Set, m.cfg.AwaitServices)
	})
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

// awaitAddress waits until this machine has the address of this node: a machine may start the
// sidecar before its network.
func awaitAddress(_ context.Context, f *flow) error {
	address, err := nodeaddress.Find(f.cfg.Address)
	if err != nil {
		dir := datadir.Layout(f.cfg.DataDir)
		if m, none := dir.ReadMarker(); !errors.Is(none, datadir.ErrNoMarker) {
			err = fmt.Errorf("%w; %q was made with it; if it never comes back, %s", err, f.cfg.DataDir, dir.ReplaceNode(m))
		}
		return transient(fmt.Errorf("waiting for the address of this node: %w", err))
	}
	f.cfg.Address = address
	f.shared.change(func(now *Membership) { now.Address, f.shared.own = address, f.cfg.clientURL() })
	return nil
}
