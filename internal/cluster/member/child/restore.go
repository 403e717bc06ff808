package child

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

var errGivenUp = errors.New("the sidecar's command has ended before the data was made")

// restore makes the data of a member from a snapshot. That cannot be interrupted: if the parent ends or
// gives up, this process exits at once. The next restore deletes the data that this one made by then.
func (c *child) restore(ctx context.Context, spec member.Spec) int {
	abandon := context.AfterFunc(ctx, func() { os.Exit(c.failed(errGivenUp)) })
	defer abandon()
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: spec.Snapshot.File, OutputDataDir: spec.Dir, Name: spec.Name, PeerURLs: []string{spec.PeerURL},
		InitialCluster: spec.InitialCluster, InitialClusterToken: spec.Token,
		RevisionBump: spec.Snapshot.Bump, MarkCompacted: true, // one without the other is ignored
	})
	if err != nil {
		return c.failed(fmt.Errorf("%q: %w", spec.Snapshot.File, err))
	}
	return member.ExitStopped
}
