package election

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Look reads status, records and presences at one revision, as a leader does,
// but without leading: for people.
func Look(ctx context.Context, client *etcd.Client) (protocol.Fleet, protocol.StatusView, error) {
	resp, err := client.Txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(client.Keys.Status()),
		clientv3.OpGet(client.Keys.Nodes(), clientv3.WithPrefix()),
		clientv3.OpGet(client.Keys.Presences(), clientv3.WithPrefix()),
	}, nil)
	if err != nil {
		return protocol.Fleet{}, protocol.StatusView{}, fmt.Errorf("look at the fleet: %w", err)
	}
	return fleet.Decode(client.Keys, etcd.NewListing(resp, 1), etcd.NewListing(resp, 2)), statusOf(resp), nil
}
