package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.applyEnv(cmd.Flags()) },
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

// envName is the environment variable of a flag.
func envName(flag string) string {
	return "LOCKSTEP_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// momentary reports whether a flag has no variable, since it is about one call.
func momentary(flag string) bool {
	switch flag {
	case "help", "output", "watch", "confirm-stopped", "from", "id", "ttl", "uses", "skip-files", "yes", "force", "for", "message",
		"status-only", "check":
		return true
	}
	return false
}

// applyEnv sets each flag that is missing from the command line from its variable.
// An empty variable counts as none.
func (p program) applyEnv(flags *pflag.FlagSet) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || momentary(f.Name) || first != nil {
			return
		}
		value, found := p.lookupEnv(envName(f.Name))
		if !found || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			first = usagef("%s: invalid value %q for --%s: %w", envName(f.Name), value, f.Name, setReason(err))
			return
		}
		f.Annotations = map[string][]string{fromEnv: {envName(f.Name)}}
	})
	return first
}

// fromEnv is the annotation of a flag that was set by a variable.
const fromEnv = "lockstep-from-env"

// setReason extracts the reason from pflag's error, which repeats flag and value.
func setReason(err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return invalid.Unwrap()
	}
	return err
}
