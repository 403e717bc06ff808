package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// lockTTL is how long the lock outlives a holder that was killed. Each change of the
// members takes less.
const lockTTL = 5 * time.Second

// ErrBusy is returned if other changes of the members take too long.
var ErrBusy = errors.New("another node changes the members of the cluster")

// locked runs do while no other sidecar or command changes the members. It waits until
// ctx ends for one that does. holder is a name for people. do may take two lockTTL at
// most.
func locked(ctx context.Context, client *etcd.Client, holder string, do func(context.Context) error) error {
	key := keyspace.Under(client.Prefix()).ClusterLock()
	return client.WithSession(ctx, lockTTL, func(held context.Context, s *etcd.Session) error {
		pauses := backoff.Backoff{First: 20 * time.Millisecond, Max: 200 * time.Millisecond, Jitter: 1}
		var last string // the holder, when etcd last answered
		for {
			other, err := tryLock(held, client, key, clientv3.OpPut(key, holder, clientv3.WithLease(s.Lease())))
			last = cmp.Or(other, last)
			switch {
			case last != "" && over(ctx):
				return fmt.Errorf("%w: %s", ErrBusy, last)
			case err != nil:
				return err
			case other == "":
				return do(held)
			}
			s.Beat()
			if !pauses.Sleep(held) {
				return fmt.Errorf("%w: %s", ErrBusy, last)
			}
		}
	})
}

// over reports whether the time of ctx is over. A request notices it before ctx does.
func over(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

// tryLock returns the holder of the lock, if it is another one.
func tryLock(ctx context.Context, client *etcd.Client, key string, put clientv3.Op) (other string, err error) {
	txn, err := client.Txn(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		[]clientv3.Op{put}, []clientv3.Op{clientv3.OpGet(key)})
	if err != nil || txn.Succeeded {
		return "", err
	}
	if kvs := txn.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 && len(kvs[0].Value) > 0 {
		return string(kvs[0].Value), nil
	}
	return "unknown", nil
}
