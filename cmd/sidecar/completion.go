package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

func (p program) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a completion script for a shell",
		Long: `Print a completion script for a shell.

  bash        source <(sidecar completion bash)
  zsh         sidecar completion zsh > "${fpath[1]}/_sidecar"
  fish        sidecar completion fish | source
  powershell  sidecar completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return console.Usagef("expected one shell: %s", strings.Join(shells, ", "))
			}
			return nil
		},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.printCompletion(cmd.Root(), args[0]); err != nil {
				return fmt.Errorf("print completion: %w", err)
			}
			return nil
		},
	}
}

func (p program) printCompletion(root *cobra.Command, shell string) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(p.Stdout, true)
	case "zsh":
		return root.GenZshCompletion(p.Stdout)
	case "fish":
		return root.GenFishCompletion(p.Stdout, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(p.Stdout)
	}
	return console.Usagef("shell %q: must be one of bash, zsh, fish, powershell", shell)
}
