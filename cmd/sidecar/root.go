package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
				return p.printVersion("text")
			case len(args) == 0:
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(p.applyEnv(cmd.Flags()), p.strayVariables(cmd))
		},
	}
	root.Flags().BoolVarP(&printsVersion, "version", "v", false, "Print the version of this program.")
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		p.runCommand(), p.statusCommand(), p.historyCommand(), p.explainCommand(), p.replayCommand(), p.supportCommand(),
		p.waitReadyCommand(), p.nodeCommand(), p.cordonCommand(), p.uncordonCommand(),
		p.overrideCommand(), p.rollbackCommand(), p.turnCommand(),
		p.storeCommand(), p.clusterCommand(), p.bundleCommand(), p.serviceCommand(), p.kubeadmCommand(),
		p.planCommand(), p.versionCommand(), p.completionCommand(), p.etcdMemberCommand(),
	)
	p.setHelp(root)
	p.setCompletion(root)
	return root
}

func unknownCommand(cmd *cobra.Command, name string) error {
	known := helpWords(cmd)
	if !cmd.HasParent() {
		known = append(known, "help")
	}
	return unknownWord("command", name, known, "see "+cmd.CommandPath()+" --help")
}

// flagError names the flag that an unknown one may be meant for.
func flagError(cmd *cobra.Command, err error) error {
	hint := "see " + cmd.CommandPath() + " --help"
	if near := nearestFlag(cmd.Flags(), err); near != "" {
		hint = "did you mean " + near + "?"
	}
	return usagef("%w; %s", err, hint)
}

// nearestFlag returns the flag that the unknown one in an error may be meant for; empty: there is none.
func nearestFlag(flags *pflag.FlagSet, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedShortnames()) > 0 {
		return ""
	}
	var known []string
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	near, distance := nearest(unknown.GetSpecifiedName(), known)
	if near == "" || distance > maxTypos {
		return ""
	}
	return "--" + near
}

// noArgs rejects arguments that are not flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}
