// Package bundles has the commands about a bundle and its rollout: sidecar bundle and
// plan, and service, which validates the files of services. It reads directories, the
// fleet in etcd and, through a kubeconfig, the objects of a cluster. It writes only
// the permission of bundle replace: whether objects are applied, leaders decide.
package bundles

import (
	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// Commands returns the commands of this package, for the root command.
func Commands(caller console.Program) []*cobra.Command {
	p := program{caller}
	return []*cobra.Command{p.bundleCommand(), p.planCommand(), p.serviceCommand()}
}
