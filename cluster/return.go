package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-dev/lockstep/cluster/datadir"
)

// returnSteps bring a node back into its cluster that has no working member: it has none,
// becomes one, or leaves (docs/protocol.md#membership). What it does about that begins when
// it is back.
func returnSteps() []step {
	return []step{
		{"directory", openMemberDirectory},
		{"certificate", renewCertificate},
		{"member", startDataOfMember},
		{"answer", awaitAnswer},
		{"cluster", awaitSameCluster},
	}
}

// startDataOfMember starts a member that has data: its vote may be needed for the majority
// that adds or removes it.
func startDataOfMember(ctx context.Context, f *flow) error {
	if f.marker.Phase.Changing() && f.dir.EtcdBegun() {
		return startOldMember(ctx, f)
	}
	if len(f.directory.List().Get()) == 0 {
		return &datadir.RefusedError{
			Path: f.dir.Members(), Problem: "is missing or empty, and this node has no member of its own",
			Remedy: "restore it from a backup; without one, delete the directory, and join with a new token: docs/clusters.md#join",
		}
	}
	f.shared.useOthers()
	return nil
}

// awaitAnswer waits until a majority answers, without a limit.
func awaitAnswer(ctx context.Context, f *flow) error {
	err := f.client.Check(ctx)
	if err != nil && ctx.Err() == nil {
		return transient(fmt.Errorf("no majority of the members answers: %w", err))
	}
	return errors.Join(err, ctx.Err())
}
