package etcd

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// This file ends attempts that are in vain. A write that a server passed on to a leader that
// died meanwhile is never answered. So while an attempt takes long, the client asks all servers
// who leads. When one of them knows a newer leader than the client did at the beginning, the
// attempt ends, and the client uses that server.

const (
	// The pauses before the servers are asked. Most requests are answered before the
	// first question, also on a slow disk.
	minLeaderPause = 100 * time.Millisecond
	maxLeaderPause = time.Second
)

// newLeaderError is why an attempt ended early. The request may have been executed.
type newLeaderError struct{ at *link } // a server that knows the new leader

func (*newLeaderError) Error() string {
	return "etcd elected another leader before it answered"
}

// GRPCStatus gives it the code of a server that cannot be used now.
func (e *newLeaderError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.Error()) }

// watchLeader calls found, at most once for each server, when a server reports a newer
// leader than the one that is known now. The caller must call stop.
func (c *Client) watchLeader(ctx context.Context, found func(*newLeaderError)) (stop func()) {
	if !c.several {
		return func() {}
	}
	term := c.knownTerm()
	ctx, cancel := context.WithCancel(ctx)
	asked := make(chan struct{})
	timer := time.AfterFunc(minLeaderPause, func() {
		defer close(asked)
		var asking sync.WaitGroup
		for _, l := range c.allLinks() {
			asking.Go(func() {
				if l.awaitNewLeader(ctx, term) {
					found(&newLeaderError{l})
				}
			})
		}
		asking.Wait()
	})
	return func() {
		cancel()
		if !timer.Stop() {
			<-asked
		}
	}
}

// awaitNewLeader asks the server until it is a voter with a leader of a newer term, and
// reports whether it was before ctx ended. Term 0: none is known, so any other than the first
// one counts.
func (l *link) awaitNewLeader(ctx context.Context, term uint64) bool {
	pauses := backoff.Backoff{First: minLeaderPause, Max: maxLeaderPause, Jitter: backoff.Apart}
	for ctx.Err() == nil {
		now, err := l.leaderTerm(ctx)
		switch {
		case err != nil:
		case term == 0:
			term = now
		case now > term:
			return true
		}
		pauses.Sleep(ctx)
	}
	return false
}

// leaderTerm asks a voter for the term of its leader. It asks for the members: a learner, and
// a server without a leader, refuse that. A server that ends can panic when it is asked for
// its status (docs/upstream.md#etcd-status-after-stop).
func (l *link) leaderTerm(ctx context.Context) (uint64, error) {
	cluster := etcdserverpb.NewClusterClient(l.client.ActiveConnection())
	resp, err := cluster.MemberList(clientv3.WithRequireLeader(ctx), &etcdserverpb.MemberListRequest{Linearizable: false})
	return resp.GetHeader().GetRaftTerm(), err
}

// knownTerm is the newest term of etcd's leaders in an answer; 0: none is known.
func (c *Client) knownTerm() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term
}
