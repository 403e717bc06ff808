package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// flowOutside is the outside of a change of this node.
type flowOutside struct{ *flow }

// newChange returns the change of this node's member.
func (f *flow) newChange() *change {
	return &change{
		resident: &f.resident, outside: flowOutside{f}, joining: f.joining, stopped: func() { f.memberState.Set(member.State{}) },
	}
}

func (o flowOutside) same(ctx context.Context) error { return o.sameCluster(ctx) }

// listed: the cluster may have added the member before its ID is in the marker.
func (o flowOutside) listed(ctx context.Context, memberID string) (membership.Listed, bool, error) {
	id, known := keyspace.ParseMemberID(memberID)
	if !known {
		want, err := o.ownMember()
		if err != nil {
			return membership.ListedUnknown, false, err
		}
		if id, err = quorum.Find(ctx, o.client, want); err != nil {
			return membership.ListedUnknown, false, err
		}
	}
	m, err := quorum.Read(ctx, o.client, id)
	switch {
	case err != nil:
		return membership.ListedUnknown, false, err
	case m == nil:
		return membership.NotListed, false, nil
	case m.Learner:
		return membership.ListedLearner, m.Leaving, nil
	}
	return membership.ListedVoter, m.Leaving, nil
}

func (o flowOutside) add(ctx context.Context) (quorum.Added, error) {
	want, err := o.ownMember()
	if err != nil {
		return quorum.Added{}, err
	}
	want.Added = time.Now()
	return quorum.Add(ctx, o.client, quorum.Addition{Node: want, After: func(done string) { afterStep("add", done) }})
}

func (o flowOutside) start(ctx context.Context, joining []etcd.Member) error {
	if joining == nil {
		return startOldMember(ctx, o.flow)
	}
	o.joining = joining
	err := o.startMember(ctx, member.Spec{InitialCluster: o.initialCluster(), Existing: true, Patience: patience})
	if err != nil {
		return err
	}
	return o.awaitReady(ctx, o.didNotBegin)
}

// didNotBegin returns an error if etcd ended before it wrote a log.
func (f *flow) didNotBegin(now member.State) error {
	if now.LastExit == "" || f.disk.EtcdBegun() {
		return nil
	}
	return transient(fmt.Errorf("the etcd member did not begin, and the members are asked for again: %s", strings.TrimSpace(now.LastExit)))
}

// votePatience is how long one step waits for the vote. Then the members are asked again:
// a learner that makes no progress is removed.
const votePatience = 2 * time.Second

func (o flowOutside) vote(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < votePatience; {
		if !o.runs() {
			return nil
		}
		status, err := o.client.MemberStatus(ctx, o.marker.ClientURL())
		if err == nil && !status.Learner && status.Leader != 0 {
			return nil
		}
		if !backoff.Sleep(ctx, voterPause) {
			return ctx.Err()
		}
	}
	return nil
}

func (o flowOutside) ready(ctx context.Context) (memberIDs, error) {
	if err := awaitMember(ctx, o.flow); err != nil {
		return memberIDs{}, err
	}
	return o.current().ids(), announce(ctx, o.flow)
}

// remove switches the client to the other members before the removal, and the client stays
// there if the removal fails. So the servers of this node's services do not change with each
// attempt. If the node gets the role back, endAdding uses its own member again.
func (o flowOutside) remove(ctx context.Context, memberID string) error {
	_, err := quorum.Remove(ctx, o.client, quorum.Removal{
		Name: memberID, Leaves: true, Dial: o.dial,
		Before: func() error { o.shared.useOthers(); return nil },
		After:  func(done string) { afterStep("remove", done) },
	})
	if errors.Is(err, etcd.ErrNoMember) {
		return nil
	}
	if err != nil {
		return err
	}
	o.log.Info("this node has left the members of etcd", "member", memberID)
	return nil
}

// dial returns a client of one member.
func (f *flow) dial(clientURL string) (*etcd.Client, error) {
	cfg := f.cfg.EtcdConfig(f.client.Prefix())
	cfg.Endpoints = []string{clientURL}
	return etcd.NewClient(cfg)
}

func (o flowOutside) forget(ctx context.Context, id uint64) error {
	return quorum.Forget(ctx, o.client, id)
}

func (o flowOutside) useOthers() { o.shared.useOthers() }

func (o flowOutside) useOwn() {
	o.shared.useOwn()
	o.log.Info("this node is a member of etcd now", "member", o.marker.MemberID)
}
