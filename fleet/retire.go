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

// Retire deletes this node's record and presence in one transaction, if these facts allow it, or
// returns another decision and its reason (docs/protocol-nodes.md#ephemeral). It completes the facts
// from etcd. The caller ends Run first, and lets the presence rest: both would write their keys
// again. Retire tries until ctx ends.
func (r *Registrar) Retire(ctx context.Context, facts protocol.RetireFacts) (protocol.Retirement, string, error) {
	pauses := registerPauses()
	for {
		decision, why, err := r.tryRetire(ctx, facts)
		if err == nil {
			return decision, why, nil
		}
		if !errors.Is(err, etcd.ErrChanged) || !pauses.Sleep(ctx) {
			return protocol.KeepRecord, "", fmt.Errorf("delete node record: %w", err)
		}
	}
}

// tryRetire returns etcd.ErrChanged if the record was written after it was read, or if
// the presence is another sidecar's.
func (r *Registrar) tryRetire(ctx context.Context, facts protocol.RetireFacts) (protocol.Retirement, string, error) {
	id, lease := r.cfg.Local.Get().ID, r.cfg.Presence.Get()
	resp, err := r.cfg.Client.Get(ctx, r.keys.Node(id))
	if err != nil {
		return protocol.KeepRecord, "", err
	}
	if len(resp.Kvs) == 0 {
		return protocol.KeepRecord, "it does not exist", nil
	}
	record := decodeRecord(id, etcd.NewKV(resp.Kvs[0]))
	roles, known := r.rolesOf(record)
	if !known {
		return protocol.KeepRecord, errRoles.Error(), nil
	}
	facts.Roles, facts.Present = roles, lease != clientv3.NoLease
	decision, why := protocol.Retire(facts)
	if decision != protocol.DeleteRecord {
		return decision, why, nil
	}
	if err := r.deleteOwn(ctx, record, lease); err != nil {
		return protocol.KeepRecord, "", err
	}
	r.traceLeft(facts)
	return decision, "", nil
}

// deleteOwn deletes this node's record as it was read, and its presence.
func (r *Registrar) deleteOwn(ctx context.Context, record protocol.Record, lease clientv3.LeaseID) error {
	id := r.cfg.Local.Get().ID
	_, err := r.cfg.Client.Write(ctx,
		[]clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(r.keys.Node(id)), "=", record.Revision),
			clientv3.Compare(clientv3.LeaseValue(r.keys.Presence(id)), "=", lease),
		},
		clientv3.OpDelete(r.keys.Node(id)), clientv3.OpDelete(r.keys.Presence(id)))
	return err
}

// Deletion is a record that a leader deletes.
type Deletion struct {
	Record    protocol.Record // as in the snapshot
	LeaderKey string
	Epoch     int64 // the create revision of that key
}

// DeleteExpired deletes an ephemeral record that expired for a leader
// (docs/protocol-nodes.md#ephemeral). It reports false, and deletes nothing, if the record was
// written since, its node's presence exists, or the leader does not lead any more.
func DeleteExpired(ctx context.Context, client *etcd.Client, d Deletion) (deleted bool, err error) {
	keys := keyspace.Under(client.Prefix())
	id := d.Record.ID
	txn, err := client.Txn(ctx,
		[]clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(d.LeaderKey), "=", d.Epoch),
			clientv3.Compare(clientv3.ModRevision(keys.Node(id)), "=", d.Record.Revision),
			clientv3.Compare(clientv3.CreateRevision(keys.Presence(id)), "=", 0),
		},
		[]clientv3.Op{clientv3.OpDelete(keys.Node(id))}, nil)
	if err != nil {
		return false, fmt.Errorf("delete the expired record of node %q: %w", id, err)
	}
	return txn.Succeeded, nil
}

// rolesOf returns the roles in record. If record is corrupt or another node's, it returns the
// last roles that this sidecar checked or wrote; without any, the roles of a new record. They
// may not be known yet (false).
func (r *Registrar) rolesOf(record protocol.Record) (roles protocol.Roles, known bool) {
	switch {
	case record.Node.ID == r.cfg.Local.Get().ID:
		return record.Node.Roles, true
	case r.last.Revision != 0:
		return r.last.Node.Roles, true
	}
	return r.cfg.firstRoles()
}
