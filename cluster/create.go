package cluster

import (
	"context"

	"github.com/lockstep-dev/lockstep/cluster/datadir"
)

// createSteps make a new cluster whose only member is this node. Until the marker
// has the phase Member, no other node knows the cluster.
func createSteps() []step {
	return []step{
		{"directory", openDirectory},
		{"marker", markCreate},
	}
}

// markCreate writes that this directory will have a new cluster. The cluster's UUID
// is chosen here once.
func markCreate(_ context.Context, f *flow) error {
	if f.marker.Cluster != "" {
		return nil // an earlier run began
	}
	return f.writeMarker(func(m *datadir.Marker) {
		*m = datadir.Marker{
			Cluster: newUUID(), Node: f.cfg.Node, Address: f.cfg.Address,
			PeerPort: f.cfg.PeerPort, ClientPort: f.cfg.ClientPort, JoinPort: f.cfg.JoinPort,
			Intent: datadir.Create, Phase: datadir.Begun,
		}
	})
}
