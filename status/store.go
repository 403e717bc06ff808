package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// ErrGuard is returned when a status was not written because its guard did not
// hold: the leadership, the status or a node record changed after the leader's
// snapshot. The leader must decide again, from a new snapshot.
var ErrGuard = errors.New("the guard did not hold")

// Observed is the status key as it was observed at one revision.
type Observed struct {
	View      protocol.StatusView // of kind StatusUnknown if the key was never read
	At        etcd.At             // when, in the store's history, View was true
	UpdatedAt time.Time           // when the status was written, for people; zero: unknown
	// Replacement of the objects' bundle, which Store.Get does not read.
	Replacement protocol.Replacement
}

// Store reads, watches and writes the status key.
type Store struct {
	client   *etcd.Client
	keys     keyspace.Keys
	observed *event.Value[Observed]
}

// NewStore returns a store that observed nothing yet.
func NewStore(client *etcd.Client) *Store {
	return &Store{client: client, keys: keyspace.Under(client.Prefix()), observed: event.New(Observed{})}
}

// Observed follows the key through a watch. It may lag behind etcd.
func (s *Store) Observed() *event.Value[Observed] { return s.observed }

// Run watches the key until ctx ends, and returns ctx's error.
func (s *Store) Run(ctx context.Context) error {
	key := s.keys.Status()
	return s.client.Follow(ctx, key, func(l etcd.Listing) {
		out := Observed{View: Decode(nil), At: l.At}
		for _, kv := range l.KVs {
			switch kv.Key { // Follow also lists keys that only begin with it
			case key:
				out.View, out.UpdatedAt = Decode(kv), updatedAt(kv.Value)
			case s.keys.Replacement():
				out.Replacement = DecodeReplacement(kv)
			}
		}
		s.observed.Set(out)
	})
}

// Get reads the status linearizably.
func (s *Store) Get(ctx context.Context) (Observed, error) {
	rewinds := s.client.Rewound().Get() // before the request: the answer may come from the older store
	resp, err := s.client.Get(ctx, s.keys.Status())
	if err != nil {
		return Observed{}, err
	}
	out := Observed{View: Decode(nil), At: etcd.At{Rewinds: rewinds, Revision: resp.Header.Revision}}
	if len(resp.Kvs) > 0 {
		kv := etcd.NewKV(resp.Kvs[0])
		out.View, out.UpdatedAt = Decode(&kv), updatedAt(kv.Value)
	}
	return out, nil
}

// Write commits v if the guard holds: the leader's key still has the guard's epoch, and
// the status is unchanged. If the guard contains a fleet revision, no node record was
// written after it either. If the guard contains the revision of a replacement, that
// replacement is unchanged, and is deleted (docs/protocol.md#leader-rules). Write returns
// ErrGuard if the guard does not hold. After any other error, v may have been written or
// not.
func (s *Store) Write(ctx context.Context, leaderKey string, v Value, guard protocol.Guard) error {
	return s.commit(ctx, leaderKey, v, guard)
}

// Resign writes v like Write, and deletes the leader's key in the same
// transaction. So the next leader starts from v (docs/protocol-objects.md#drain).
func (s *Store) Resign(ctx context.Context, leaderKey string, v Value, guard protocol.Guard) error {
	return s.commit(ctx, leaderKey, v, guard, clientv3.OpDelete(leaderKey))
}

func (s *Store) commit(ctx context.Context, leaderKey string, v Value, guard protocol.Guard, more ...clientv3.Op) error {
	value, err := v.encode(time.Now())
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	key := s.keys.Status()
	conds := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(leaderKey), "=", guard.Epoch),
		clientv3.Compare(clientv3.ModRevision(key), "=", guard.StatusRevision),
	}
	if guard.FleetRevision != 0 {
		// A deleted record does not show here, and need not: it blocks nothing
		// (docs/upstream.md#etcd-compare-range).
		conds = append(conds, clientv3.Compare(clientv3.ModRevision(s.keys.Nodes()).WithPrefix(), "<", guard.FleetRevision+1))
	}
	if guard.ReplacementRevision != 0 {
		replacement := s.keys.Replacement()
		conds = append(conds, clientv3.Compare(clientv3.ModRevision(replacement), "=", guard.ReplacementRevision))
		more = append(more, clientv3.OpDelete(replacement))
	}
	resp, err := s.client.Txn(ctx, conds, append([]clientv3.Op{clientv3.OpPut(key, string(value))}, more...), nil)
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	if !resp.Succeeded {
		return fmt.Errorf("write status: %w", ErrGuard)
	}
	return nil
}
