package fleet

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// RoleChange is the input of SetRoles.
type RoleChange struct {
	Roles protocol.Roles
	// Edit returns the new roles, computed from the record's, in place of Roles. If they are
	// the same, nothing is written. It may be called several times. nil: Roles count.
	Edit func(now protocol.Roles) protocol.Roles
	// Stopped: the caller knows that the node is off, with its kube-apiserver. It is
	// needed to take the controller role from a node that is not alive.
	Stopped bool
	// Force: also if no other node is in service. Without it, the controller role is not
	// taken from the last node that serves.
	Force bool
	// Leave is asked before the role of a member of etcd is taken away. The role is taken
	// only if the conditions that it returns hold then. nil: it is always taken.
	Leave func(context.Context) ([]clientv3.Cmp, error)
}

// SetRoles replaces the roles in a node's record that this program knows, and keeps
// everything else. It returns ErrNoNode if there is no record, and an error if the
// record is corrupt.
//
// Leaders wait for a node without the controller role until its sidecar closed the gate
// (docs/protocol-nodes.md#registration). A node that is not alive may never do that. So SetRoles
// returns ErrNotAlive if change takes the role from such a node, unless Stopped is set; then
// leaders no longer wait for the node. If Stopped is set for a node that is alive, it returns
// ErrAlive.
//
// Without Force, it returns ErrLastInService if the controller role is taken from a node in
// service and no other one is, as SetCordon does (docs/protocol-nodes.md#cordons).
func SetRoles(ctx context.Context, client *etcd.Client, id protocol.NodeID, change RoleChange) error {
	err := etcd.UntilUnchanged(ctx, func() error { return trySetRoles(ctx, client, id, change) })
	if err != nil {
		return fmt.Errorf("set roles of node %q: %w", id, err)
	}
	return nil
}

// GiveConsensus gives a node the role of a member of etcd, and keeps everything else of its
// record: for a node that becomes the only member (docs/clusters.md#restore), or joins again. Without a valid
// record it does nothing: the node's sidecar writes one, with the roles on its disk.
func GiveConsensus(ctx context.Context, client *etcd.Client, id protocol.NodeID) error {
	key := keyspace.Under(client.Prefix()).Node(id)
	resp, err := client.Get(ctx, key)
	if err != nil || len(resp.Kvs) == 0 {
		return err
	}
	was, problem := decodeNode(id, resp.Kvs[0].Value)
	if problem != "" || was.Roles.Consensus {
		return nil
	}
	was.Roles.Consensus = true
	value, _, err := withRoles(id, resp.Kvs[0].Value, RoleChange{Roles: was.Roles})
	if err == nil {
		same := clientv3.Compare(clientv3.ModRevision(key), "=", resp.Kvs[0].ModRevision)
		_, err = client.Write(ctx, []clientv3.Cmp{same}, clientv3.OpPut(key, string(value)))
	}
	if err != nil {
		return fmt.Errorf("give node %q the role %s: %w", id, protocol.RoleConsensus, err)
	}
	return nil
}

// trySetRoles returns etcd.ErrChanged if the record, or whether the node is alive, changed
// after they were read.
func trySetRoles(ctx context.Context, client *etcd.Client, id protocol.NodeID, change RoleChange) error {
	s, err := readSnapshot(ctx, client, &Decoder{})
	if err != nil {
		return err
	}
	own, found := s.fleet.Record(id)
	if !found {
		return ErrNoNode
	}
	was, alive := own.Node.Roles, own.Alive
	if change.Edit != nil && own.Problem == "" {
		if change.Roles = change.Edit(was); change.Roles == was {
			return nil
		}
	}
	value, takes, err := withRoles(id, s.value(id), change)
	if err != nil {
		return err
	}
	conds, err := change.conditions(ctx, was)
	if err != nil {
		return err
	}
	conds = append(conds, clientv3.Compare(clientv3.ModRevision(s.keys.Node(id)), "=", own.Revision))
	switch {
	case takes && alive && change.Stopped:
		return ErrAlive
	case takes && !alive && !change.Stopped:
		return ErrNotAlive
	case takes && alive:
		conds = append(conds, clientv3.Compare(clientv3.CreateRevision(s.keys.Presence(id)), ">", 0))
	case takes:
		conds = append(conds, clientv3.Compare(clientv3.CreateRevision(s.keys.Presence(id)), "=", 0))
	}
	if takes && alive && !change.Force {
		others, err := s.leavesService(id)
		if err != nil {
			return err
		}
		conds = append(conds, others...)
	}
	_, err = client.Write(ctx, conds, clientv3.OpPut(s.keys.Node(id), string(value)))
	return err
}

// conditions are those under which a member of etcd may lose its role.
func (c RoleChange) conditions(ctx context.Context, was protocol.Roles) ([]clientv3.Cmp, error) {
	if c.Leave == nil || c.Roles.Consensus || !was.Consensus {
		return nil, nil
	}
	return c.Leave(ctx)
}
