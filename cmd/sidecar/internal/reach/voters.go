package reach

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Voters returns the voters of the etcd that the sidecars run; none: etcd runs elsewhere.
func (c Etcd) Voters(ctx context.Context) ([]protocol.Voter, error) {
	_, err := quorum.ReadCluster(ctx, c.Client)
	if errors.Is(err, quorum.ErrNoCluster) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	views, err := quorum.List(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	var out []protocol.Voter
	for _, m := range views {
		if !m.Learner {
			out = append(out, protocol.Voter{
				Name: cmp.Or(string(m.Node), strconv.FormatUint(m.ID, 16)), Address: m.Address, Healthy: m.Healthy,
			})
		}
	}
	return out, nil
}
