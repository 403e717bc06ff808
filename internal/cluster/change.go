package cluster

import (
	"context"
	"errors"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// outside is the rest of the cluster as a change uses it: the other members, and etcd.
type outside interface {
	// same returns an error if the members that answer belong to another cluster.
	same(ctx context.Context) error
	// listed returns what the cluster knows of this node's member.
	listed(ctx context.Context, memberID string) (listing, error)
	// add adds this node as a learner, or finds that an earlier attempt added it.
	add(ctx context.Context) (quorum.Added, error)
	// start starts the process, which goes on with the log that there is, or begins one with
	// those members. Without a log it waits until the process is ready.
	start(ctx context.Context, joining []etcd.Member) error
	// vote waits for a moment until the member votes.
	vote(ctx context.Context) error
	// ready waits until the member serves, and writes its record.
	ready(ctx context.Context) (memberIDs, error)
	// remove removes the member from the cluster. From when that is allowed, this node uses only
	// the other members.
	remove(ctx context.Context, memberID string) error
	// forget deletes the records of a member that was removed.
	forget(ctx context.Context, id uint64) error
}

// listing is what the cluster knows of a node's member; zero: the members did not answer.
type listing struct {
	listed  membership.Listed
	decided bool // its removal was decided
	removed bool // an operator removed a member with the node's key for good
}

// change takes the steps by which a node in its cluster becomes a member and leaves. It
// decides nothing: it gathers the facts, and takes the step that the protocol names.
type change struct {
	*resident
	outside outside
	// stopped is called when the process has ended for good.
	stopped func()
	// ended is called with the error that ends the sidecar.
	ended func(error)
	// joining are the members with which a member without a log begins; nil: not known.
	joining []etcd.Member
	gone    string // the ID of a member that is known to be removed
}

// facts asks for the members only where that matters.
func (c *change) facts(ctx context.Context) (membership.Facts, error) {
	facts := membership.Facts{Phase: phaseOf(c.marker.Phase), Data: c.disk.EtcdBegun(), Runs: c.runs()}
	if run := c.current(); run != nil && run.ended() && errors.Is(run.err, member.ErrRemoved) && c.marker.Phase.Changing() {
		c.gone = c.marker.MemberID
	}
	var err error
	switch {
	case c.marker.Phase == datadir.WithoutMember:
		facts.Listed = membership.NotListed
	case !c.marker.Phase.Changing():
	case c.gone != "" && c.gone == c.marker.MemberID && c.disk.Present(c.disk.Etcd()):
		facts.Listed = membership.NotListed // its data is moved without a majority; what follows needs one
	default:
		var known listing
		known, err = c.outside.listed(ctx, c.marker.MemberID)
		facts.Listed, facts.Decided, facts.Removed = known.listed, known.decided, known.removed
	}
	if facts.Listed == membership.NotListed && c.marker.Phase != datadir.Adding {
		facts.Data = c.disk.Present(c.disk.Etcd()) // also the files of an etcd that never began a log
	}
	return facts, err
}

// take takes one step.
func (c *change) take(ctx context.Context, s membership.Step) error {
	switch s {
	case membership.BeginAdding:
		if err := c.outside.same(ctx); err != nil {
			return err // the cluster was restored while this sidecar ran
		}
		return c.writeMarker(func(m *datadir.Marker) { m.Phase = datadir.Adding })
	case membership.AddLearner:
		return c.add(ctx)
	case membership.StartMember:
		return c.start(ctx)
	case membership.AwaitVote:
		return c.outside.vote(ctx)
	case membership.EndAdding:
		return c.endAdding(ctx)
	case membership.BeginLeaving:
		return c.writeMarker(func(m *datadir.Marker) { m.Phase = datadir.Leaving })
	case membership.RemoveMember:
		return c.outside.remove(ctx, c.marker.MemberID)
	case membership.StopMember:
		c.endMember()
		c.stopped()
		return nil
	case membership.MoveData:
		return c.moveData(ctx)
	case membership.EndLeaving:
		return c.endLeaving(ctx)
	case membership.EndRemoved:
		return c.endRemoved()
	default: // it waits
		return nil
	}
}

func (c *change) add(ctx context.Context) error {
	if err := c.outside.same(ctx); err != nil {
		return err
	}
	added, err := c.outside.add(ctx)
	if err != nil {
		return err
	}
	c.endMember() // of an attempt that did not begin
	c.joining = added.Members
	return c.writeMarker(func(m *datadir.Marker) { m.MemberID = keyspace.MemberID(added.ID) })
}

// start starts the member. A member without data begins with the members as they are
// now. While it is a learner, the client uses the others.
func (c *change) start(ctx context.Context) error {
	c.endMember() // it ended
	if c.disk.EtcdBegun() {
		return c.outside.start(ctx, nil)
	}
	if c.joining == nil {
		if err := c.add(ctx); err != nil {
			return err
		}
	}
	err := c.outside.start(ctx, c.joining)
	if _, again := errors.AsType[transientError](err); again {
		c.endMember()
		c.joining = nil // other nodes may have joined meanwhile
	}
	return err
}

// endAdding makes the member one that works: this sidecar uses it from then on.
func (c *change) endAdding(ctx context.Context) error {
	ids, err := c.outside.ready(ctx)
	if err != nil {
		return err
	}
	if err := c.settle(ids); err != nil {
		return err
	}
	c.joining = nil
	return nil
}

// moveData moves the data of a removed member away. It reads the list of the members again:
// the caller may have decided this step by an old list.
func (c *change) moveData(ctx context.Context) error {
	c.endMember() // its process ended
	c.stopped()
	facts, err := c.facts(ctx)
	if err != nil {
		return err
	}
	return c.moveAway(facts.Listed)
}

// endLeaving ends the removal. It deletes the member's records, in case the sidecar
// was killed before it did that.
func (c *change) endLeaving(ctx context.Context) error {
	c.endMember()
	if id, known := keyspace.ParseMemberID(c.marker.MemberID); known {
		if err := c.outside.forget(ctx, id); err != nil {
			return err
		}
	}
	return c.writeMarker(func(m *datadir.Marker) { m.Phase, m.MemberID = datadir.WithoutMember, "" })
}

// endRemoved ends the sidecar of a node that an operator removed for good.
func (c *change) endRemoved() error {
	c.endMember()
	c.stopped()
	if err := c.writeRemoved(); err != nil {
		return err
	}
	c.ended(c.removedForGood())
	return nil
}
