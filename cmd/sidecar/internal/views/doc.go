// Package views has the commands that show something and change nothing: sidecar
// status, history, explain, replay, support and version, and wait-ready, which waits
// for what they show. They print the answers of a sidecar, the history in etcd, and
// files of this machine.
package views

import (
	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// Commands returns the commands of this package, for the root command.
func Commands(caller console.Program) []*cobra.Command {
	p := program{caller}
	return []*cobra.Command{
		p.statusCommand(), p.historyCommand(), p.explainCommand(), p.replayCommand(), p.supportCommand(),
		p.waitReadyCommand(), p.versionCommand(),
	}
}
