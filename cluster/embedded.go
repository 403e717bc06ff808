package cluster

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/cluster/datadir"
	"github.com/lockstep-dev/lockstep/cluster/members"
	"github.com/lockstep-dev/lockstep/cluster/pki"
)

// runEmbedded carries out the flow that the data directory needs, then keeps the
// member running until ctx ends.
func (m *Manager) runEmbedded(ctx context.Context) error {
	f := &flow{cfg: *m.cfg.Embedded, client: m.cfg.Client, log: m.log, plainLog: m.cfg.Log, show: m.show}
	f.memberState, f.observed, f.held = m.member, m.observed, m.held
	state, name, steps := f.choose()
	if err := m.enter(state); err != nil {
		return err
	}
	// From here on the client uses the members that this node knew last, too.
	f.directory = members.New(members.Config{
		Client: f.client, File: datadir.Layout(f.cfg.DataDir).Members(), Own: f.client.Endpoint(), Log: m.cfg.Log.With("worker", "members"),
	})
	err := f.carryOut(ctx, name, steps)
	if err == nil {
		err = m.enter(Running)
	}
	if err == nil {
		err = f.keepRunning(ctx, m.answerJoins, m.keeper.Run)
	} else {
		err = m.fail(err)
	}
	return errors.Join(err, f.close())
}

// keepRunning does what a member needs besides its process, until ctx ends or the
// cluster removes the member.
func (f *flow) keepRunning(ctx context.Context, others ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range others {
		group.Go(func() error { return run(ctx) })
	}
	group.Go(func() error { return f.observe(ctx) })
	group.Go(func() error {
		return pki.Renewal{
			Dir: f.dir.PKI(), Node: f.marker.Node, Address: f.marker.Address, Every: f.renewEvery,
			Renewed: f.announceRenewed, Log: f.plainLog.With("worker", "certificates"),
		}.Keep(ctx)
	})
	group.Go(func() error { return f.directory.Run(ctx) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.member.done:
			return f.memberEnded()
		}
	})
	return group.Wait()
}

// choose returns the flow for the directory as it is. It does not lock the
// directory: the first step does, and checks it. So one that cannot be read counts
// as one that exists.
func (f *flow) choose() (State, string, []step) {
	marker, err := datadir.Layout(f.cfg.DataDir).ReadMarker()
	begun := err == nil && marker.Phase != datadir.Member && marker.Phase != datadir.Removed
	switch {
	case err != nil && !errors.Is(err, datadir.ErrNoMarker):
		return RestartingMember, "restart", restartSteps()
	case errors.Is(err, datadir.ErrNoMarker) && f.cfg.Join == "", begun && marker.Intent == datadir.Create:
		return CreatingCluster, "create", createSteps()
	case errors.Is(err, datadir.ErrNoMarker), begun && marker.Intent == datadir.Join:
		return JoiningCluster, "join", joinSteps()
	}
	return RestartingMember, "restart", restartSteps()
}

// close stops the member, and unlocks the directory.
func (f *flow) close() error {
	f.member.end()
	if f.dir == nil {
		return nil
	}
	return f.dir.Close()
}
