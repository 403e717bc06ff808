package fleet

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// List reads all records and presences at one revision.
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
// blocks no rollout (docs/protocol.md#dead-nodes). It returns ErrNoNode if there
// is no record, and ErrAlive if the node has a presence. A missing presence does
// not prove that the node is down: the caller has to know that it is.
func Remove(ctx context.Context, client *etcd.Client, id protocol.NodeID) error {
	keys := keyspace.Under(client.Prefix())
	resp, err := client.Txn(ctx,
		[]clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(keys.Node(id)), ">", 0),
			clientv3.Compare(clientv3.CreateRevision(keys.Presence(id)), "=", 0),
		},
		[]clientv3.Op{clientv3.OpDelete(keys.Node(id))},
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

// SetRoles replaces the roles in a node's record and keeps everything else. It
// returns ErrNoNode if there is no record, and an error if the record is corrupt.
func SetRoles(ctx context.Context, client *etcd.Client, id protocol.NodeID, roles protocol.Roles) error {
	pauses := registerPauses()
	for {
		err := trySetRoles(ctx, client, id, roles)
		if errors.Is(err, errChanged) {
			if pauses.Sleep(ctx) {
				continue // from the record's new content
			}
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("set roles of node %q: %w", id, err)
		}
		return nil
	}
}

// trySetRoles returns errChanged if the record changed after it was read.
func trySetRoles(ctx context.Context, client *etcd.Client, id protocol.NodeID, roles protocol.Roles) error {
	key := keyspace.Under(client.Prefix()).Node(id)
	resp, err := client.Get(ctx, key)
	if err != nil {
		return err
	}
	if len(resp.Kvs) == 0 {
		return ErrNoNode
	}
	value, err := withRoles(id, resp.Kvs[0].Value, roles)
	if err != nil {
		return err
	}
	txn, err := client.Txn(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", resp.Kvs[0].ModRevision)},
		[]clientv3.Op{clientv3.OpPut(key, string(value))}, nil)
	switch {
	case err != nil:
		return err
	case !txn.Succeeded:
		return errChanged
	}
	return nil
}
