package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

const (
	// commandLease is how long after a command was killed the same one on that node waits.
	commandLease = 5 * time.Second
	// commandPause is the pause before a command that waits for another one tries again. It is
	// far below two leases, which is the time that a session allows without progress.
	commandPause = time.Second
)

// WithTurnCommand runs work while no other command of the node does: of two that are typed at the
// same time, the second would take the turn for its own, and run beside the first. shown gets
// the other one while it waits, which ends with waiting.
//
// Work continues while etcd does not answer, since work itself may stop etcd. If that lasts for
// longer than the lease, another command may begin.
func WithTurnCommand(
	ctx, waiting context.Context, client *etcd.Client, by protocol.TurnRequest, shown func(protocol.TurnRequest), work func() error,
) error {
	l := turnLock{client: client, by: by, shown: shown, got: make(chan struct{})}
	holding, release := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.keep(holding) }()
	select {
	case <-l.got:
	case <-waiting.Done():
		release()
		return errors.Join(<-ended, waiting.Err())
	case err := <-ended:
		release()
		return err
	}
	err := work()
	release()
	return errors.Join(err, <-ended)
}

// turnLock is the key of a command that runs, or waits for another one.
type turnLock struct {
	client *etcd.Client
	by     protocol.TurnRequest
	shown  func(protocol.TurnRequest)
	got    chan struct{} // closed when it gets the key for the first time
	has    bool
}

// keep gets the key, and keeps it until ctx ends. It returns an error if it never got it, and not
// because ctx ended.
func (l *turnLock) keep(ctx context.Context) error {
	for {
		err := l.client.WithSession(ctx, commandLease, l.hold)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the command has ended, or gives up: what became of the key does not matter
		case !l.has && !errors.Is(err, etcd.ErrSessionLost):
			return fmt.Errorf("begin the command of node %q: %w", l.by.Node, err)
		}
		if !backoff.Sleep(ctx, commandPause) {
			return nil
		}
	}
}

// hold gets the key with a session, and returns when that ends.
func (l *turnLock) hold(ctx context.Context, s *etcd.Session) error {
	s.Outlast()
	for held := false; ; {
		s.Beat()
		if !held {
			var err error
			if held, err = l.acquire(ctx, s); err != nil && !l.has {
				return err
			}
		}
		if held && !l.has {
			l.has = true
			close(l.got)
		}
		if !backoff.Sleep(ctx, commandPause) {
			return context.Cause(ctx)
		}
	}
}

// acquire writes the key unless another command holds it.
func (l *turnLock) acquire(ctx context.Context, s *etcd.Session) (bool, error) {
	key := keyspace.Under(l.client.Prefix()).TurnRunning(l.by.Node)
	absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	resp, err := l.client.Txn(ctx, []clientv3.Cmp{absent},
		[]clientv3.Op{clientv3.OpPut(key, string(encodeTurnRequest(l.by)), clientv3.WithLease(s.Lease()))},
		[]clientv3.Op{clientv3.OpGet(key)})
	if err != nil || resp.Succeeded {
		return err == nil, err
	}
	for _, kv := range etcd.NewListing(resp, 0).KVs {
		if !l.has {
			l.shown(decodeTurnRequest(l.by.Node, kv))
		}
	}
	return false, nil
}

// AwaitCommandGone reports whether the command of a node's turn has ended without a word, and returns when that is known:
// a command that runs renews the lease of its key, which ends soon after one that was killed.
func AwaitCommandGone(ctx context.Context, client *etcd.Client, id protocol.NodeID) (bool, error) {
	key := keyspace.Under(client.Prefix()).TurnRunning(id)
	for before := commandLease; ; {
		resp, err := client.Get(ctx, key)
		if err != nil || len(resp.Kvs) == 0 {
			return err == nil, err
		}
		if resp.Kvs[0].Lease == 0 { // it was written by hand, and stays
			return false, nil
		}
		left, err := client.LeaseLeft(ctx, resp.Kvs[0].Lease)
		if err != nil || left > before {
			return false, err
		}
		if before = left; !backoff.Sleep(ctx, commandPause/4) {
			return false, ctx.Err()
		}
	}
}
