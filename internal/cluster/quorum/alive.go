package quorum

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// This file keeps people from removing a member whose sidecar runs: a member that does not
// answer for some seconds may only be slow, and once it is removed it never serves again.

// stillAlive refuses the removal of a member whose sidecar is alive.
func stillAlive(node protocol.NodeID) error {
	return fmt.Errorf("%w: node %q: its sidecar is alive, so its etcd member may only be slow: see sidecar status on that node; "+
		"to take the member from a node that goes on, type: sidecar node set-roles %s --remove %s; to remove it all the same, stop that sidecar first, or add --force: "+
		"the sidecar then stops etcd and ends, and needs an empty data directory and a new token to join again", ErrRefused, node, node, protocol.RoleConsensus)
}

// leaseCheck is the pause between two questions whether a sidecar keeps its lease alive.
const leaseCheck = 500 * time.Millisecond

// leaseUnit is the unit in which etcd reports the remaining time of a lease.
const leaseUnit = time.Second

// asksFirst reports whether the removal requires that the node's sidecar is stopped.
func (r Removal) asksFirst(node protocol.NodeID) bool { return !r.Force && !r.Leaves && node != "" }

// awaitEnd returns nil once the presence of the member's node is missing, and refuses the removal
// if its sidecar keeps the presence alive. A sidecar that was killed leaves its presence
// behind until the lease ends; awaitEnd waits for that.
func (r Removal) awaitEnd(ctx context.Context, client *etcd.Client) error {
	if r.Force || r.Leaves {
		return nil
	}
	all, _, err := listWithRoles(ctx, client)
	if err != nil {
		return err
	}
	target, err := find(all, r.Name)
	if err != nil {
		return err
	}
	if err := mayRemove(all, target, r.remedy(target)); err != nil {
		return err // stopping its sidecar would not help
	}
	began, first := time.Now(), time.Duration(-1)
	for {
		lease, err := presenceLease(ctx, client, target.Node)
		if err != nil || lease == 0 {
			return err
		}
		left, err := client.LeaseLeft(ctx, lease)
		switch {
		case err != nil:
			return err
		case first < 0:
			first = left
			r.Progress(fmt.Sprintf("waiting up to %s: %s was alive a moment ago, and may have stopped since", left+leaseUnit, name(target)))
		case left > 0 && left+time.Since(began) > first+leaseUnit: // it was kept alive in between
			return stillAlive(target.Node)
		}
		if !backoff.Sleep(ctx, leaseCheck) {
			return stillAlive(target.Node)
		}
	}
}

// presenceLease returns the lease of a node's presence; 0: there is none.
func presenceLease(ctx context.Context, client *etcd.Client, node protocol.NodeID) (int64, error) {
	if node == "" {
		return 0, nil
	}
	resp, err := client.Get(ctx, keyspace.Under(client.Prefix()).Presence(node))
	if err != nil {
		return 0, fmt.Errorf("read the presence of node %q: %w", node, err)
	}
	for _, kv := range resp.Kvs {
		return kv.Lease, nil
	}
	return 0, nil
}

// notAlive is the condition of the first write: the node's sidecar did not start
// since.
func (r Removal) notAlive(client *etcd.Client, node protocol.NodeID) []clientv3.Cmp {
	if !r.asksFirst(node) {
		return nil
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(keyspace.Under(client.Prefix()).Presence(node)), "=", 0)}
}
