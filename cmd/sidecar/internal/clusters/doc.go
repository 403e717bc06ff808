// Package clusters has the commands about etcd itself: sidecar cluster, for the
// members of an etcd that the sidecars run, their tokens, snapshots and CA, and
// sidecar store, for the identity of the keys below a prefix and their deletion. How
// members change is decided in internal/cluster/quorum.
package clusters

import (
	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// Commands returns the commands of this package, for the root command.
func Commands(caller console.Program) []*cobra.Command {
	p := program{caller}
	return []*cobra.Command{p.clusterCommand(), p.storeCommand()}
}
