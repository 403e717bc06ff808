package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

func (p program) root() *cobra.Command {
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
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(p.applyEnv(cmd.Flags()), p.strayVariables(cmd))
		},
	}
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		p.runCommand(), p.statusCommand(), p.waitReadyCommand(), p.nodeCommand(), p.cordonCommand(), p.uncordonCommand(),
		p.overrideCommand(),
		p.storeCommand(), p.clusterCommand(), p.bundleCommand(), p.serviceCommand(), p.kubeadmCommand(),
		p.planCommand(), p.versionCommand(), p.completionCommand(), p.etcdMemberCommand(),
	)
	return root
}

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := "see " + cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("unknown command %q; %s", name, hint)
}

// noArgs rejects arguments that are not flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}
