package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// realOutside is the outside of a node in its cluster.
type realOutside struct{ *parts }

func (o realOutside) same(ctx context.Context) error { return o.parts.same.check(ctx) }

// id returns the ID of this node's member; 0: it has none. The cluster may have added the member
// before its ID is in the marker.
func (o realOutside) id(ctx context.Context, memberID string) (uint64, error) {
	if id, known := keyspace.ParseMemberID(memberID); known {
		return id, nil
	}
	want, err := o.record.own()
	if err != nil {
		return 0, err
	}
	return quorum.Find(ctx, o.client, want)
}

func (o realOutside) listed(ctx context.Context, memberID string) (listing, error) {
	own, err := o.record.own()
	if err != nil {
		return listing{}, err
	}
	id, err := o.id(ctx, memberID)
	if errors.Is(err, quorum.ErrRemoved) {
		return listing{listed: membership.NotListed, removed: true}, nil // a node that knows no ID has no data
	}
	if err != nil {
		return listing{}, err
	}
	m, removed, err := quorum.Read(ctx, o.client, id, own.Key)
	switch {
	case err != nil:
		return listing{}, err
	case m == nil:
		return listing{membership.NotListed, false, removed}, nil
	case m.Learner:
		return listing{membership.ListedLearner, m.Leaving, removed}, nil
	}
	return listing{membership.ListedVoter, m.Leaving, removed}, nil
}

func (o realOutside) add(ctx context.Context) (quorum.Added, error) {
	want, err := o.record.own()
	if err != nil {
		return quorum.Added{}, err
	}
	want.Added = time.Now()
	return quorum.Add(ctx, o.client, quorum.Addition{Node: want, After: func(done string) { afterStep("add", done) }})
}

func (o realOutside) start(ctx context.Context, joining []etcd.Member) error {
	if joining == nil {
		return o.startOld(ctx)
	}
	if err := o.startJoined(ctx, joining); err != nil {
		return err
	}
	return o.awaitBegun(ctx)
}

// votePatience is how long one step waits for the vote. Then the members are asked again:
// a learner that makes no progress is removed.
const votePatience = 2 * time.Second

func (o realOutside) vote(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < votePatience && o.runs(); {
		if _, votes := o.votes(ctx); votes {
			return nil
		}
		if !backoff.Sleep(ctx, voterPause) {
			return ctx.Err()
		}
	}
	return nil
}

func (o realOutside) ready(ctx context.Context) (memberIDs, error) {
	if err := o.await(ctx); err != nil {
		return memberIDs{}, err
	}
	return o.current().ids(), o.record.announce(ctx)
}

// remove switches the client to the other members before the removal, and the client stays
// there if the removal fails. So the servers of this node's services do not change with each
// attempt. If the node gets the role back, its own member is used again when it works.
func (o realOutside) remove(ctx context.Context, memberID string) error {
	id, err := o.id(ctx, memberID)
	if err != nil || id == 0 { // 0: the cluster has no such member any more
		return err
	}
	_, err = quorum.Remove(ctx, o.client, quorum.Removal{
		Name: keyspace.MemberID(id), Leaves: true, Dial: o.parts.same.dial,
		Before: o.shared.useOthers,
		After:  func(done string) { afterStep("remove", done) },
	})
	if errors.Is(err, etcd.ErrNoMember) {
		return nil
	}
	if err != nil {
		return err
	}
	o.log.Info("this node has left the members of etcd", "member", keyspace.MemberID(id))
	return nil
}

func (o realOutside) forget(ctx context.Context, id uint64) error {
	o.shared.useOthers()
	return quorum.Forget(ctx, o.client, id)
}
