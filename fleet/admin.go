package fleet

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// List reads all records and presences at one revision, for people.
func List(ctx context.Context, client *etcd.Client) (protocol.Fleet, error) {
	keys := keyspace.Under(client.Prefix())
	resp, err := client.Txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(keys.Nodes(), clientv3.WithPrefix()),
		clientv3.OpGet(keys.Presences(), clientv3.WithPrefix()),
	}, nil)
	if err != nil {
		return protocol.Fleet{}, fmt.Errorf("list nodes: %w", err)
	}
	return Decode(keys, etcd.NewListing(resp, 0), etcd.NewListing(resp, 1)), nil
}

// Remove deletes the record of a node that has stopped for good, so that it
// blocks nobody any more (DESIGN 4.9). It returns ErrNoNode where there is no
// record, and ErrAlive while the node's presence is there. That a presence is
// gone does not prove that the node is down: whoever calls has to know.
func Remove(ctx context.Context, client *etcd.Client, id protocol.NodeID) error {
	keys := keyspace.Under(client.Prefix())
	record, presence := keys.Node(id), keys.Presence(id)
	resp, err := client.Txn(ctx,
		[]clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(record), ">", 0),
			clientv3.Compare(clientv3.CreateRevision(presence), "=", 0),
		},
		[]clientv3.Op{clientv3.OpDelete(record)},
		[]clientv3.Op{clientv3.OpGet(record, clientv3.WithCountOnly())})
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

// SetRoles replaces the roles in a node's record and leaves the rest as it is.
// It returns ErrNoNode where there is no record, and an error where the record
// is corrupt.
func SetRoles(ctx context.Context, client *etcd.Client, id protocol.NodeID, roles protocol.Roles) error {
	key := keyspace.Under(client.Prefix()).Node(id)
	for {
		resp, err := client.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("set roles of node %q: %w", id, err)
		}
		if len(resp.Kvs) == 0 {
			return fmt.Errorf("set roles of node %q: %w", id, ErrNoNode)
		}
		value, err := withRoles(id, resp.Kvs[0].Value, roles)
		if err != nil {
			return fmt.Errorf("set roles of node %q: %w", id, err)
		}
		txn, err := client.Txn(ctx,
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", resp.Kvs[0].ModRevision)},
			[]clientv3.Op{clientv3.OpPut(key, string(value))}, nil)
		switch {
		case err != nil:
			return fmt.Errorf("set roles of node %q: %w", id, err)
		case txn.Succeeded:
			return nil
		}
		// Somebody wrote it in between: once more, from what it says now.
		select {
		case <-ctx.Done():
			return fmt.Errorf("set roles of node %q: %w", id, ctx.Err())
		case <-time.After(minRegisterPause):
		}
	}
}
