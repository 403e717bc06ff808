package fleet

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// This file deletes records of other nodes: Remove for people, DeleteExpired for leaders. A node
// that stops deletes its own (Retirer).

// Remove deletes the record of a node that stopped for good, so that it blocks no rollout
// (docs/protocol-nodes.md#dead-nodes), and ends its turn. It returns ErrNoNode if there is no record, and ErrAlive if
// there is a presence. A missing presence does not prove that the node is down: the caller must
// know that it is.
func Remove(ctx context.Context, client *etcd.Client, id protocol.NodeID) error {
	keys := keyspace.Under(client.Prefix())
	resp, err := client.Txn(ctx,
		[]clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(keys.Node(id)), ">", 0),
			clientv3.Compare(clientv3.CreateRevision(keys.Presence(id)), "=", 0),
		},
		departure(keys, id),
		[]clientv3.Op{clientv3.OpGet(keys.Node(id), clientv3.WithCountOnly())})
	switch {
	case err != nil:
		return fmt.Errorf("remove node %q: %w", id, err)
	case resp.Succeeded:
		return nil
	case resp.Responses[0].GetResponseRange().Count == 0:
		return fmt.Errorf("remove node %q: %w", id, ErrNoNode)
	}
	return fmt.Errorf("remove node %q: %w", id, ErrAlive)
}

// departure deletes the record of a node and its turn, which nothing else would end.
func departure(keys keyspace.Keys, id protocol.NodeID) []clientv3.Op {
	return []clientv3.Op{clientv3.OpDelete(keys.Node(id)), clientv3.OpDelete(keys.Turn(id))}
}

// Deletion is a record that a leader deletes.
type Deletion struct {
	Record    protocol.Record // as in the snapshot
	Turn      protocol.Turn   // of its node, as in the snapshot; zero: it has none
	LeaderKey string
	Epoch     int64 // the create revision of that key
}

// DeleteExpired deletes an ephemeral record that expired for a leader, and the turn of its services
// (docs/protocol-nodes.md#ephemeral). It reports false, and deletes nothing, if the record or the
// turn was written since, its node's presence exists, or the leader does not lead any more.
func DeleteExpired(ctx context.Context, client *etcd.Client, d Deletion) (deleted bool, err error) {
	keys := keyspace.Under(client.Prefix())
	id := d.Record.ID
	txn, err := client.Txn(ctx,
		[]clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(d.LeaderKey), "=", d.Epoch),
			clientv3.Compare(clientv3.ModRevision(keys.Node(id)), "=", d.Record.Revision),
			clientv3.Compare(clientv3.ModRevision(keys.Turn(id)), "=", d.Turn.Revision),
			clientv3.Compare(clientv3.CreateRevision(keys.Presence(id)), "=", 0),
		},
		departure(keys, id), nil)
	if err != nil {
		return false, fmt.Errorf("delete the expired record of node %q: %w", id, err)
	}
	return txn.Succeeded, nil
}
