package election

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// ReplaceBundle lets leaders replace the objects of one bundle by the objects of another, once
// (docs/protocol.md#bundle-names). It returns ErrNotReplaceable if the facts do not allow that,
// and otherwise the facts on which it was written. A replacement that waits already is not
// written again.
func ReplaceBundle(ctx context.Context, client *etcd.Client, r protocol.Replacement) (protocol.Fleet, protocol.StatusView, error) {
	var s snapshot
	err := etcd.UntilUnchanged(ctx, func() (err error) {
		if s, _, err = readSnapshot(ctx, client, &fleet.Decoder{}); err != nil {
			return fmt.Errorf("read status, records and presences: %w", err)
		}
		return s.replaceBundle(ctx, client, r)
	})
	return s.fleet, s.status, err
}

// replaceBundle returns etcd.ErrChanged if something changed after it was read.
func (s snapshot) replaceBundle(ctx context.Context, client *etcd.Client, r protocol.Replacement) error {
	if s.replacement.Allows(r.From, r.To) {
		return nil
	}
	refusal, witness := protocol.ReplacementRefusal(s.status, s.fleet, s.replacement, r.From, r.To)
	if refusal != "" {
		return fmt.Errorf("%w: %s", ErrNotReplaceable, refusal)
	}
	value, err := status.EncodeReplacement(r)
	if err == nil {
		keys := keyspace.Under(client.Prefix())
		_, err = client.Write(ctx, []clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(keys.Status()), "=", s.status.Revision),
			clientv3.Compare(clientv3.ModRevision(keys.Node(witness.ID)), "=", witness.Revision),
			// An invalid replacement is overwritten.
			clientv3.Compare(clientv3.ModRevision(keys.Replacement()), "<", s.fleet.Revision+1),
		}, clientv3.OpPut(keys.Replacement(), string(value)))
	}
	if err != nil {
		return fmt.Errorf("write the replacement: %w", err)
	}
	return nil
}

// CancelReplacement deletes the replacement, and returns the one that was there; the zero
// Replacement: there was none.
func CancelReplacement(ctx context.Context, client *etcd.Client) (protocol.Replacement, error) {
	key := keyspace.Under(client.Prefix()).Replacement()
	var was protocol.Replacement
	err := etcd.UntilUnchanged(ctx, func() error {
		resp, err := client.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("read the replacement: %w", err)
		}
		if len(resp.Kvs) == 0 {
			return nil
		}
		kv := etcd.NewKV(resp.Kvs[0])
		was = status.DecodeReplacement(&kv)
		same := clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)
		if _, err = client.Write(ctx, []clientv3.Cmp{same}, clientv3.OpDelete(key)); err != nil {
			return fmt.Errorf("delete the replacement: %w", err)
		}
		return nil
	})
	return was, err
}
