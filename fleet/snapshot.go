package fleet

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// ReadFleet reads all records and presences, and the store ID, in one linearizable transaction.
// The ID is empty if the store contains none. Pass the decoder of the read before, or a new
// one.
func ReadFleet(ctx context.Context, client *etcd.Client, decoder *Decoder) (fleet protocol.Fleet, store string, err error) {
	keys := keyspace.Under(client.Prefix())
	resp, err := client.Txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(keys.Nodes(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.Presences(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.Store()),
	}, nil)
	if err != nil {
		return protocol.Fleet{}, "", fmt.Errorf("read records and presences: %w", err)
	}
	fleet = decoder.Decode(keys, etcd.NewListing(resp, 0), etcd.NewListing(resp, 1))
	return fleet, DecodeStoreKey(keys.Store(), etcd.NewListing(resp, 2)).ID, nil
}
