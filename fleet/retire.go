package fleet

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
	"github.com/lockstep-dev/lockstep/trace"
)

// deleteRecord deletes this node's record and presence in one transaction, if these facts allow it, or
// returns another decision and its reason (docs/protocol-nodes.md#ephemeral). It completes the facts
// from etcd. The caller ends Run first, and lets the presence rest: both would write their keys
// again. It tries until ctx ends.
func (r *Registrar) deleteRecord(ctx context.Context, facts noderecord.RetireFacts) (noderecord.Retirement, string, error) {
	pauses := registerPauses()
	for {
		decision, why, err := r.tryDeleteRecord(ctx, facts)
		if err == nil {
			return decision, why, nil
		}
		if !errors.Is(err, etcd.ErrChanged) || !pauses.Sleep(ctx) {
			return noderecord.KeepRecord, "", fmt.Errorf("delete node record: %w", err)
		}
	}
}

// tryDeleteRecord returns etcd.ErrChanged if the record or the turn was written after it was read,
// or if the presence is another sidecar's.
func (r *Registrar) tryDeleteRecord(ctx context.Context, facts noderecord.RetireFacts) (noderecord.Retirement, string, error) {
	id, lease := r.cfg.Local.Get().ID, r.cfg.Presence.Get()
	resp, err := r.cfg.Client.Get(ctx, r.keys.Node(id))
	if err != nil {
		return noderecord.KeepRecord, "", err
	}
	if len(resp.Kvs) == 0 {
		return noderecord.KeepRecord, "it does not exist", nil
	}
	record := decodeRecord(id, etcd.NewKV(resp.Kvs[0]))
	roles, known := r.rolesOf(record)
	if !known {
		return noderecord.KeepRecord, errRoles.Error(), nil
	}
	turn, err := r.readTurn(ctx, id)
	if err != nil {
		return noderecord.KeepRecord, "", err
	}
	facts.Roles, facts.Turn, facts.Present = roles, turn, lease != clientv3.NoLease
	decision, why := noderecord.Retire(facts)
	if decision != noderecord.DeleteRecord {
		return decision, why, nil
	}
	if err := r.deleteOwn(ctx, record, turn, lease); err != nil {
		return noderecord.KeepRecord, "", err
	}
	r.cfg.Trace.Report(trace.Event{Left: &trace.Left{Facts: facts}})
	return decision, "", nil
}

// readTurn returns the turn of a node; the zero value: it has none.
func (r *Registrar) readTurn(ctx context.Context, id protocol.NodeID) (protocol.Turn, error) {
	resp, err := r.cfg.Client.Get(ctx, r.keys.Turn(id))
	if err != nil || len(resp.Kvs) == 0 {
		return protocol.Turn{}, err
	}
	return decodeTurn(id, new(etcd.NewKV(resp.Kvs[0]))), nil
}

// deleteOwn deletes this node's record and turn as they were read, and its presence.
func (r *Registrar) deleteOwn(ctx context.Context, record protocol.Record, turn protocol.Turn, lease clientv3.LeaseID) error {
	id := r.cfg.Local.Get().ID
	_, err := r.cfg.Client.Write(ctx,
		[]clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(r.keys.Node(id)), "=", record.Revision),
			clientv3.Compare(clientv3.ModRevision(r.keys.Turn(id)), "=", turn.Revision),
			clientv3.Compare(clientv3.LeaseValue(r.keys.Presence(id)), "=", lease),
		},
		append(departure(r.keys, id), clientv3.OpDelete(r.keys.Presence(id)))...)
	return err
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
