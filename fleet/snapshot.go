package fleet

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Reads are the operations that read a fleet and the store ID, as a part of a transaction. Decoder.Read decodes the answers.
func Reads(keys keyspace.Keys) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpGet(keys.Nodes(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.Presences(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.Turns(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.Rollback()),
		clientv3.OpGet(keys.Store()),
	}
}

// Read decodes the answers to Reads, which begin at an index of a transaction. The ID is empty if the store contains none.
func (d *Decoder) Read(keys keyspace.Keys, resp *clientv3.TxnResponse, first int) (fleet protocol.Fleet, store string) {
	fleet = d.Decode(keys, etcd.NewListing(resp, first), etcd.NewListing(resp, first+1))
	fleet.Turns = decodeTurns(keys, etcd.NewListing(resp, first+2))
	fleet.Rollback = DecodeRollback(keys.Rollback(), etcd.NewListing(resp, first+3))
	return fleet, decodeStoreKey(keys.Store(), etcd.NewListing(resp, first+4)).ID
}

// snapshot contains the facts for a decision about nodes or turns, of one revision.
type snapshot struct {
	fleet    protocol.Fleet
	store    string // its ID; empty: there is none
	keys     keyspace.Keys
	nodes    etcd.Listing
	revision int64
}

// readSnapshot reads it in one linearizable transaction. Pass the decoder of the read before, or a new one.
func readSnapshot(ctx context.Context, client *etcd.Client, decoder *Decoder) (snapshot, error) {
	keys := keyspace.Under(client.Prefix())
	resp, err := client.Txn(ctx, nil, Reads(keys), nil)
	if err != nil {
		return snapshot{}, fmt.Errorf("read records, presences and turns: %w", err)
	}
	out := snapshot{keys: keys, nodes: etcd.NewListing(resp, 0), revision: resp.Header.Revision}
	out.fleet, out.store = decoder.Read(keys, resp, 0)
	return out, nil
}

// ReadFleet reads the fleet and the store ID at one revision, as List does.
func ReadFleet(ctx context.Context, client *etcd.Client, decoder *Decoder) (fleet protocol.Fleet, store string, err error) {
	s, err := readSnapshot(ctx, client, decoder)
	return s.fleet, s.store, err
}

// List reads records, presences, turns and the rollback at one revision.
func List(ctx context.Context, client *etcd.Client) (protocol.Fleet, error) {
	s, err := readSnapshot(ctx, client, &Decoder{})
	return s.fleet, err
}

// value is the value of a node's record; empty: it has none.
func (s snapshot) value(id protocol.NodeID) []byte { return s.nodes.Find(s.keys.Node(id)).Value }
