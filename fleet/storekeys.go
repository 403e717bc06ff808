package fleet

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// StoreKeys are the keys of a store, and of the etcd cluster that the sidecars run, at one revision. No other
// key below the prefix is among them: those may be of a kube-apiserver.
type StoreKeys struct {
	Prefix      string
	Revision    int64
	EtcdCluster uint64 // the ID of the cluster that answered
	Keys        []*etcd.KV
}

// ReadStoreKeys reads all keys. It omits the values that may be secret (keyspace.Keys.MayBeSecret).
func ReadStoreKeys(ctx context.Context, client *etcd.Client) (StoreKeys, error) {
	keys := keyspace.Under(client.Prefix())
	parts := slices.Concat(keys.StoreParts(), keys.ClusterParts())
	var ops []clientv3.Op
	for _, part := range parts {
		var opts []clientv3.OpOption
		if keys.MayBeSecret(part) {
			opts = append(opts, clientv3.WithKeysOnly())
		}
		ops = append(ops, clientv3.OpGet(part, below(part, opts...)...))
	}
	resp, err := client.Txn(ctx, nil, ops, nil)
	if err != nil {
		return StoreKeys{}, fmt.Errorf("read the keys of the store %s: %w", client.Prefix(), err)
	}
	out := StoreKeys{Prefix: client.Prefix(), Revision: resp.Header.Revision, EtcdCluster: resp.Header.ClusterId}
	for i := range parts {
		out.Keys = append(out.Keys, etcd.NewListing(resp, i).KVs...)
	}
	return out, nil
}
