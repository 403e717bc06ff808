// Package nodes has the commands that change nodes of a fleet: sidecar node, cordon
// and uncordon, turn, rollback and override. They write the records of a fleet in
// etcd, or a file of this node, and wait until a sidecar confirms the change. Which
// node may leave the service is decided in protocol/nodeturns.
package nodes

import (
	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// Commands returns the commands of this package, for the root command.
func Commands(caller console.Program) []*cobra.Command {
	p := program{caller}
	return []*cobra.Command{
		p.nodeCommand(), p.cordonCommand(), p.uncordonCommand(), p.turnCommand(), p.rollbackCommand(), p.overrideCommand(),
	}
}
