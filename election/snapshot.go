package election

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// snapshot is the status, all records and presences, and the store's ID at one revision
// (docs/protocol.md#snapshots).
type snapshot struct {
	fleet  protocol.Fleet
	status protocol.StatusView
	store  string // its ID; empty: there is none

	unknown     status.Unknown // of the status
	replacement protocol.Replacement
}

// ReadSnapshot reads status, records and presences at one revision, as a leader
// does. The caller need not lead: it is for commands that show a leader's
// decision. Each missing node counts as one that may be restarting.
func ReadSnapshot(ctx context.Context, client *etcd.Client) (protocol.Fleet, protocol.StatusView, protocol.Replacement, error) {
	s, _, err := readSnapshot(ctx, client, &fleet.Decoder{})
	if err != nil {
		return protocol.Fleet{}, protocol.StatusView{}, protocol.Replacement{}, fmt.Errorf("read status, records and presences: %w", err)
	}
	return protocol.Unseen(s.fleet), s.status, s.replacement, nil
}

// readSnapshot reads in one linearizable transaction, if conds hold. The decoder is the
// one that decoded the snapshot before, or a new one.
func readSnapshot(
	ctx context.Context, client *etcd.Client, decoder *fleet.Decoder, conds ...clientv3.Cmp,
) (s snapshot, held bool, err error) {
	keys := keyspace.Under(client.Prefix())
	own := []clientv3.Op{clientv3.OpGet(keys.Status()), clientv3.OpGet(keys.Replacement())}
	resp, err := client.Txn(ctx, conds, slices.Concat(own, fleet.Reads(keys)), nil)
	if err != nil || !resp.Succeeded {
		return snapshot{}, false, err
	}
	s.status = status.Decode(nil)
	if l := etcd.NewListing(resp, 0); len(l.KVs) > 0 {
		s.status, s.unknown = status.Decode(l.KVs[0]), status.UnknownIn(l.KVs[0])
	}
	if l := etcd.NewListing(resp, 1); len(l.KVs) > 0 {
		s.replacement = status.DecodeReplacement(l.KVs[0])
	}
	s.fleet, s.store = decoder.Read(keys, resp, len(own))
	return s, true, nil
}
