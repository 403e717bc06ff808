package cluster

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// runEmbedded carries out the flow that the data directory needs, then keeps the
// workers and the member of this node running until ctx ends.
func (m *Manager) runEmbedded(ctx context.Context) error {
	f := &flow{
		cfg: *m.cfg.Embedded, client: m.cfg.Client, log: m.log, plainLog: m.cfg.Log, show: m.show,
		resident: resident{run: event.New[*memberRun](nil)}, shared: m.shared, memberState: m.member,
		measures: m.measures, observed: m.observed, held: m.held,
		stepping: &m.stepping,
	}
	f.adopted = f.publish
	state, name, steps := f.choose()
	if err := m.enter(state); err != nil {
		return err
	}
	// From here on the client uses the members that this node knew last, too.
	f.directory = members.New(members.Config{
		Client: f.client, File: datadir.Layout(f.cfg.DataDir).Members(), Publish: f.shared.list, Log: m.cfg.Log.With("worker", "members"),
	})
	err := f.carryOut(ctx, name, append([]step{{"address", awaitAddress}}, steps...))
	if err == nil {
		err = m.keepRunning(ctx, f)
	} else {
		err = m.fail(err)
	}
	return errors.Join(err, f.close())
}

// keepRunning keeps the state Running, and lets steps about the member be taken, until ctx
// ends or the cluster removes the member.
func (m *Manager) keepRunning(ctx context.Context, f *flow) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.show = m.showProblem
	m.let(f.newChange(), ctx.Done())
	err := m.enter(Running)
	if err == nil {
		err = f.keepRunning(ctx, m.answerJoins, m.keeper.Run, func(ctx context.Context) error { return m.rotate(ctx, f) })
	}
	cancel() // the step that is being taken
	m.let(nil, nil)
	return err
}

// keepRunning runs the workers of a node in a cluster, besides the process of its member,
// until ctx ends or the cluster removes the member. joins is for a node whose member may
// vote.
func (f *flow) keepRunning(ctx context.Context, joins, keeper, rotate func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.whileMember(ctx, joins) })
	group.Go(func() error { return keeper(ctx) })
	group.Go(func() error { return rotate(ctx) })
	group.Go(func() error { return f.observe(ctx) })
	group.Go(func() error {
		return pki.Renewal{
			Dir: f.dir.PKI(), Node: f.cfg.Node, Address: f.cfg.Address, Every: f.renewEvery,
			Ask: f.renewElsewhere, Renewed: f.announceRenewed, Log: f.plainLog.With("worker", "certificates"),
		}.Keep(ctx)
	})
	group.Go(func() error { return f.directory.Run(ctx) })
	group.Go(func() error { return f.whileMember(ctx, f.keepAuthority) })
	group.Go(func() error { return f.awaitRemoval(ctx) })
	return group.Wait()
}

// answersJoins reports whether a node with its member in that phase answers joins: also while it
// leaves, because the last voter cannot leave before another node has joined.
func answersJoins(phase membership.Phase) bool {
	return phase == membership.Working || phase == membership.Leaving
}

// whileMember runs a worker as long as this node answers joins, each time again.
func (f *flow) whileMember(ctx context.Context, work func(context.Context) error) error {
	for {
		if err := event.Until(ctx, f.shared.value, func(m Membership) bool { return answersJoins(m.Phase) }); err != nil {
			return err
		}
		group, limited := errgroup.WithContext(ctx)
		group.Go(func() error { return work(limited) })
		group.Go(func() error {
			if err := event.Until(limited, f.shared.value, func(m Membership) bool { return !answersJoins(m.Phase) }); err != nil {
				return err
			}
			return errNoMember
		})
		if err := group.Wait(); !errors.Is(err, errNoMember) {
			return err
		}
	}
}

// errNoMember ends the workers that a node runs for its member.
var errNoMember = errors.New("this node has no working member any more")

// awaitRemoval returns an error when the cluster has removed a working member, or when
// the node cannot run it. A member that leaves is removed by its own node.
func (f *flow) awaitRemoval(ctx context.Context) error {
	for {
		run, changed := f.run.Load()
		var done chan struct{}
		if run != nil {
			done = run.done
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			continue
		case <-done:
		}
		if err := f.removed(run); err != nil {
			return err
		}
		if !event.Wait(ctx, changed) { // its step goes on
			return ctx.Err()
		}
	}
}

// removed returns an error if the run of a working member has ended.
func (f *flow) removed(run *memberRun) error {
	f.stepping.Lock()
	defer f.stepping.Unlock()
	if f.marker.Phase != datadir.Member || f.current() != run {
		return nil // also if it was started again
	}
	return f.memberEnded(run)
}

// choose returns the flow for the directory as it is. It does not lock the
// directory: the first step does, and checks it. So one that cannot be read counts
// as one that exists.
func (f *flow) choose() (State, string, []step) {
	marker, err := datadir.Layout(f.cfg.DataDir).ReadMarker()
	begun := err == nil && (marker.Phase == datadir.Begun || marker.Phase == datadir.Enrolled)
	switch {
	case err != nil && !errors.Is(err, datadir.ErrNoMarker):
		return RestartingMember, "restart", restartSteps()
	case errors.Is(err, datadir.ErrNoMarker) && f.cfg.Join == "", begun && marker.Intent == datadir.Create:
		return CreatingCluster, "create", createSteps()
	case errors.Is(err, datadir.ErrNoMarker), begun && marker.Intent == datadir.Join:
		return JoiningCluster, "join", joinSteps()
	case marker.Phase.Changing(), marker.Phase == datadir.WithoutMember:
		return RestartingMember, "return", returnSteps()
	}
	return RestartingMember, "restart", restartSteps()
}

// close stops the member, and unlocks the directory.
func (f *flow) close() error {
	f.endMember()
	if f.dir == nil {
		return nil
	}
	return f.dir.Close()
}
