package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/bundles"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/clusters"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/kubeadmnode"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/nodes"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/views"
)

func (p program) root() *cobra.Command {
	printsVersion := false
	root := &cobra.Command{
		Use:   "sidecar",
		Short: "Lockstep: one reconciler, and a readiness gate, for an HA Kubernetes control plane",
		Long: `Lockstep runs next to every kube-apiserver of a highly available control plane.

The sidecars elect a leader among the nodes with the newest release. The leader
applies the objects of its bundle. The /readyz of each sidecar gates its
kube-apiserver: it succeeds only while the objects in the cluster are compatible
with the release of this node.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // RunE names an unknown command
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case printsVersion:
				return views.PrintVersion(p.Program, "text")
			case len(args) == 0:
				return cmd.Help()
			}
			return console.UnknownCommand(cmd, args[0], append(topicNames(), "help")...)
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(p.ApplyEnv(cmd.Flags()), p.strayVariables(cmd))
		},
	}
	p.Commands = root
	root.Flags().BoolVarP(&printsVersion, "version", "v", false, "Print the version of this program.")
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(p.runCommand(), kubeadmnode.Command(p.Program), p.completionCommand(), p.etcdMemberCommand())
	for _, commands := range []func(console.Program) []*cobra.Command{views.Commands, nodes.Commands, clusters.Commands, bundles.Commands} {
		root.AddCommand(commands(p.Program)...)
	}
	p.setHelp(root)
	p.setCompletion(root)
	return root
}

// flagError names the flag that an unknown one may be meant for.
func flagError(cmd *cobra.Command, err error) error {
	hint := "see " + cmd.CommandPath() + " --help"
	if near := console.NearestFlag(cmd.Flags(), err); near != "" {
		hint = "did you mean " + near + "?"
	}
	return console.Usagef("%w; %s", err, hint)
}
