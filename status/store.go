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

// ErrGuard says that a status was not written because its guard did not hold:
// the leadership, the status or a node record is no longer what the decision
// rested on. The leader has to look again.
var ErrGuard = errors.New("the guard did not hold")

// Observed is the status key as it was observed at one revision.
type Observed struct {
	View      protocol.StatusView // of kind StatusUnknown where it was never observed
	At        etcd.At             // the place in the store's history at which View was true
	UpdatedAt time.Time           // for people; zero: the status does not say
}

// Store reads, watches and writes the status key.
type Store struct {
	client   *etcd.Client
	keys     keyspace.Keys
	observed *event.Value[Observed]
}

// NewStore returns a store that has not observed anything.
func NewStore(client *etcd.Client) *Store {
	return &Store{client: client, keys: keyspace.Under(client.Prefix()), observed: event.New(Observed{})}
}

// Observed follows the key as the watch sees it. It may lag.
func (s *Store) Observed() *event.Value[Observed] { return s.observed }

// Run watches the key until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	key := s.keys.Status()
	return s.client.Follow(ctx, key, func(l etcd.Listing) {
		out := Observed{View: Decode(nil), At: l.At}
		for _, kv := range l.KVs {
			if kv.Key == key { // the prefix may have longer keys
				out.View, out.UpdatedAt = Decode(&kv), updatedAt(kv.Value)
			}
		}
		s.observed.Set(out)
	})
}

// Get reads the status linearizably.
func (s *Store) Get(ctx context.Context) (Observed, error) {
	rewinds := s.client.Rewound().Get() // before the request: an answer of an older store counts as older
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

// Write commits st if the guard holds: the leader's key still has the guard's
// epoch, the status is unchanged, and, where the guard asks for it, no node
// record was modified after the fleet's revision (DESIGN 4.5). It returns
// ErrGuard where it does not hold; any other error leaves open whether st was
// written.
func (s *Store) Write(ctx context.Context, leaderKey string, st protocol.Status, guard protocol.Guard) error {
	return s.commit(ctx, leaderKey, st, guard)
}

// Resign does what Write does, and gives up the leader's key in the same
// transaction, so that nobody leads who does not know what st says (6.4).
func (s *Store) Resign(ctx context.Context, leaderKey string, st protocol.Status, guard protocol.Guard) error {
	return s.commit(ctx, leaderKey, st, guard, clientv3.OpDelete(leaderKey))
}

func (s *Store) commit(ctx context.Context, leaderKey string, st protocol.Status, guard protocol.Guard, more ...clientv3.Op) error {
	value, err := Encode(st, time.Now())
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	key := s.keys.Status()
	conds := []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(leaderKey), "=", guard.Epoch),
		clientv3.Compare(clientv3.ModRevision(key), "=", guard.StatusRevision),
	}
	if guard.FleetRevision != 0 {
		// Deletions do not show here, and need not: who is gone cannot block
		// (FACTS 6.2).
		conds = append(conds, clientv3.Compare(clientv3.ModRevision(s.keys.Nodes()).WithPrefix(), "<", guard.FleetRevision+1))
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
