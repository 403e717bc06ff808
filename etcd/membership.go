package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/sorting"
)

// This file reads and changes the members of the etcd cluster. Its callers serialize
// the additions: of several at the same moment, etcd does one and never answers the
// others.

// Member is a member of the etcd cluster.
type Member struct {
	ID         uint64
	Name       string // empty: it has not started yet
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
}

// MemberStatus is what a member reports of itself.
type MemberStatus struct {
	ID      uint64
	Leader  uint64 // 0: it knows none
	Learner bool
	DBSize  int64 // of its database, in bytes
	InUse   int64 // the data in it, in bytes: a copy of it needs as much
	Quota   int64 // at which etcd refuses writes, in bytes; 0: it does not report it
	Full    bool  // etcd refuses writes, because the database of a member has reached its quota
	// Index is the index of the newest entry in its log, and Applied the index of the last
	// entry that it applied.
	Index, Applied uint64
	Errors         []string // its other faults
}

// Why a change of the members failed.
var (
	// ErrNoMember: the cluster has no member with that ID.
	ErrNoMember = rpctypes.ErrMemberNotFound
	// ErrNoLearner: the member is a voter already.
	ErrNoLearner = rpctypes.ErrMemberNotLearner
	// ErrBehind: the learner has not received enough of the log yet.
	ErrBehind = rpctypes.ErrMemberLearnerNotReady
	// ErrLearners: there are as many learners as etcd allows.
	ErrLearners = rpctypes.ErrTooManyLearners
	// ErrPeerURL: another member uses that peer URL.
	ErrPeerURL = rpctypes.ErrPeerURLExist
	// ErrUnhealthy: too few voters are connected, or not for 5 s yet.
	ErrUnhealthy = rpctypes.ErrUnhealthy
	// ErrTooFew: the change would leave too few voters that started.
	ErrTooFew = rpctypes.ErrMemberNotEnoughStarted
)

// expected are answers to a change of the members that say nothing of how the client
// reaches etcd.
var expected = []error{ErrNoMember, ErrNoLearner, ErrBehind, ErrLearners, ErrPeerURL, ErrUnhealthy, ErrTooFew, rpctypes.ErrMemberExist}

func expectedRefusal(err error) bool {
	err = rpctypes.Error(err)
	return slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) })
}

// Members returns the members, linearizably, by ID.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	ctx = clientv3.WithRequireLeader(ctx)
	resp, err := membership(ctx, c, reads, func(ctx context.Context, client *clientv3.Client) (*clientv3.MemberListResponse, error) {
		return client.MemberList(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("list the members of etcd: %w", err)
	}
	return newMembers(resp), nil
}

// KnownMembers returns the members as the server that answers knows them. It needs no
// majority, so that an answer does not show that etcd can be used: Contact does not change.
func (c *Client) KnownMembers(ctx context.Context) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := c.tls.missing(); err != nil {
		return nil, fmt.Errorf("list the members that a server of etcd knows: %w", err)
	}
	resp, err := ask(ctx, c, reads, func(ctx context.Context, client *clientv3.Client) (*clientv3.MemberListResponse, error) {
		return client.MemberList(ctx, clientv3.WithSerializable())
	})
	if err != nil {
		return nil, fmt.Errorf("list the members that a server of etcd knows: %w", err)
	}
	return newMembers(resp), nil
}

func newMembers(resp *clientv3.MemberListResponse) []Member {
	out := make([]Member, 0, len(resp.Members))
	for _, m := range resp.Members {
		out = append(out, Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner})
	}
	sorting.By(out, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// AddLearner adds a member that receives the log and does not vote. After an error that is not
// a refusal the member may exist: list the members.
func (c *Client) AddLearner(ctx context.Context, peerURL string) (id uint64, err error) {
	ctx = clientv3.WithRequireLeader(ctx)
	resp, err := membership(ctx, c, writes, func(ctx context.Context, client *clientv3.Client) (*clientv3.MemberAddResponse, error) {
		return client.MemberAddAsLearner(ctx, []string{peerURL})
	})
	if err != nil {
		return 0, fmt.Errorf("add the member %s to etcd: %w", peerURL, err)
	}
	return resp.Member.ID, nil
}

// PromoteMember makes a learner a voter.
func (c *Client) PromoteMember(ctx context.Context, id uint64) error {
	ctx = clientv3.WithRequireLeader(ctx)
	_, err := membership(ctx, c, writes, func(ctx context.Context, client *clientv3.Client) (*clientv3.MemberPromoteResponse, error) {
		return client.MemberPromote(ctx, id)
	})
	if err != nil {
		return fmt.Errorf("promote the member %x of etcd: %w", id, err)
	}
	return nil
}

// RemoveMember removes a member for good: its ID never returns. After an error that
// is not a refusal it may be removed later: list the members.
func (c *Client) RemoveMember(ctx context.Context, id uint64) error {
	ctx = clientv3.WithRequireLeader(ctx)
	_, err := membership(ctx, c, writes, func(ctx context.Context, client *clientv3.Client) (*clientv3.MemberRemoveResponse, error) {
		return client.MemberRemove(ctx, id)
	})
	if err != nil {
		return fmt.Errorf("remove the member %x of etcd: %w", id, err)
	}
	return nil
}

// MoveLeader makes another voter the leader. The leader must be the client's only endpoint.
func (c *Client) MoveLeader(ctx context.Context, to uint64) error {
	_, err := membership(ctx, c, writes, func(ctx context.Context, client *clientv3.Client) (*clientv3.MoveLeaderResponse, error) {
		return client.MoveLeader(ctx, to)
	})
	if err != nil {
		return fmt.Errorf("move the leadership of etcd to %x: %w", to, err)
	}
	return nil
}

// MemberStatus asks the member with that client URL for its status. Whether it answers
// shows nothing of the client's own connection, so Contact does not change.
func (c *Client) MemberStatus(ctx context.Context, clientURL string) (MemberStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	l, done, err := c.linkTo(clientURL)
	if err != nil {
		return MemberStatus{}, err
	}
	defer done()
	resp, err := l.status(ctx)
	if err != nil {
		return MemberStatus{}, fmt.Errorf("status of etcd at %s: %w", clientURL, err)
	}
	return MemberStatus{
		ID: resp.Header.GetMemberId(), Leader: resp.Leader, Learner: resp.IsLearner,
		DBSize: resp.DbSize, InUse: resp.DbSizeInUse, Quota: resp.DbSizeQuota, Full: slices.ContainsFunc(resp.Errors, isNoSpace),
		Index: resp.RaftIndex, Applied: resp.RaftAppliedIndex,
		Errors: slices.DeleteFunc(slices.Clone(resp.Errors), isNoSpace),
	}, nil
}

// membership makes one request within the time limit. The answers of these requests carry no
// revision.
func membership[T any](ctx context.Context, c *Client, kind effect, request func(context.Context, *clientv3.Client) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var resp T
	err := c.tls.missing()
	if err == nil {
		resp, err = ask(limited, c, kind, request)
		err = rpctypes.Error(err)
	}
	switch {
	case err == nil, expectedRefusal(err):
		c.seen(0)
	default:
		if answered := c.failed(ctx, err); !answered && ctx.Err() == nil {
			err = fmt.Errorf("no answer from etcd at %s: %w", strings.Join(c.Endpoints(), ", "), err)
		}
	}
	return resp, err
}
