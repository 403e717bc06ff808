package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// node is this node while it is in its cluster: from the end of its flow until its sidecar stops,
// or the cluster removes its member.
type node struct {
	parts
	observer observer
	cluster  string // the ID of the cluster
	// renewEvery is the pause between two checks of the certificates; 0: the default.
	renewEvery time.Duration

	mu     sync.Mutex      // mu is held during each step, so one is taken at a time
	change *change         // nil: no step is taken any more
	until  <-chan struct{} // closed when a step must end

	removed chan error // why the node ends: an operator removed it for good
}

// newNode returns a node that lives until the channel is closed. It shows the problems of its steps.
func newNode(p parts, observed *event.Value[[]Observed], show func(string), until <-chan struct{}) *node {
	p.show = show
	n := &node{
		parts: p, observer: observer{p.client, p.directory, observed}, cluster: p.marker.Cluster,
		until: until, removed: make(chan error, 1),
	}
	n.change = &change{
		resident: n.resident, outside: realOutside{&n.parts}, stopped: func() { n.state.Set(member.State{}) },
		ended: func(err error) { n.removed <- err }, // once: no step follows it
	}
	return n
}

// live runs the workers of a node in its cluster, besides the process of its member, until ctx
// ends or the cluster removes the member. `joins` answers joins, while the member may vote; keeper promotes and
// removes learners; rotate takes part in replacements of the CA.
func (n *node) live(ctx context.Context, joins, keeper, rotate func(context.Context) error) error {
	renewal := pki.Renewal{
		Dir: n.dir.PKI(), Node: n.cfg.Node, Address: n.cfg.Address, Every: n.renewEvery,
		Ask: n.signers.renew, Renewed: n.record.renewed, Log: n.process.log.With("worker", "certificates"),
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, work := range []func(context.Context) error{
		keeper, rotate, n.observer.run, renewal.Keep, n.directory.Run, n.awaitRemoval, n.noticeRemoval,
	} {
		group.Go(func() error { return work(ctx) })
	}
	for _, work := range []func(context.Context) error{joins, n.signers.keep} {
		group.Go(func() error { return n.whileMember(ctx, work) })
	}
	group.Go(func() error {
		select {
		case err := <-n.removed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return group.Wait()
}

// step runs do with the change, one at a time. Its context also ends when the node is to end.
func (n *node) step(ctx context.Context, do func(context.Context, *change) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.change == nil {
		return ErrNotRunning
	}
	ctx, end := event.WithEnd(ctx, n.until)
	defer end()
	return do(ctx, n.change)
}

// end waits for the step that is being taken. None is taken after that.
func (n *node) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.change = nil
}

// answersJoins reports whether a node with its member in that phase answers joins: also while it
// leaves, because the last voter cannot leave before another node has joined.
func answersJoins(phase membership.Phase) bool {
	return phase == membership.Working || phase == membership.Leaving
}

// whileMember runs work while this node answers joins, and again each time that it does so again.
func (n *node) whileMember(ctx context.Context, work func(context.Context) error) error {
	for {
		if err := event.Until(ctx, n.shared.value, func(m Membership) bool { return answersJoins(m.Phase) }); err != nil {
			return err
		}
		group, limited := errgroup.WithContext(ctx)
		group.Go(func() error { return work(limited) })
		group.Go(func() error {
			if err := event.Until(limited, n.shared.value, func(m Membership) bool { return !answersJoins(m.Phase) }); err != nil {
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
func (n *node) awaitRemoval(ctx context.Context) error {
	for {
		run, changed := n.run.Load()
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
		if err := n.endedRun(run); err != nil {
			return err
		}
		// a step of the change handles this end: wait for the next run
		if !event.Wait(ctx, changed) {
			return ctx.Err()
		}
	}
}

// endedRun returns why the run of a working member ended; nil: a step ended it, or a newer run has replaced it.
func (n *node) endedRun(run *memberRun) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.marker.Phase != datadir.Member || n.current() != run {
		return nil
	}
	return n.memberEnded(run)
}

// noticeRemoval ends a node whose working member an operator removed, also while its process cannot notice
// that: it hangs, or does not start.
func (n *node) noticeRemoval(ctx context.Context) error {
	pauses := backoff.Backoff{First: firstPause, Max: maxPause, Jitter: 0.2}
	for {
		list, changed := n.directory.List().Load()
		err := n.step(ctx, func(ctx context.Context, c *change) error { return c.endIfRemoved(ctx, list) })
		pause := time.Duration(0) // until the list changes
		if err != nil {
			pause = pauses.Next()
		}
		if !event.WaitFor(ctx, pause, changed) {
			return ctx.Err()
		}
	}
}

// endIfRemoved ends the sidecar if its working member is not listed any more, because an operator removed it.
func (c *change) endIfRemoved(ctx context.Context, list []members.Member) error {
	own := func(m members.Member) bool { return m.ID == c.marker.MemberID }
	if c.marker.Phase != datadir.Member || len(list) == 0 || slices.ContainsFunc(list, own) {
		return nil
	}
	known, err := c.outside.listed(ctx, c.marker.MemberID)
	if err != nil || !membership.EndsAtWork(known.listed, known.removed) {
		return err
	}
	return c.endRemoved()
}
