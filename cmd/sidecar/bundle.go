package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

func (p program) bundleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Check a bundle, name its digest, and compare it with a cluster",
		Long: `Check a bundle, name its digest, and compare it with a cluster. None of these
commands writes anything. Without a DIR they are about the built-in bundle.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	cmd.AddCommand(p.bundleValidateCommand(), p.bundleDigestCommand(), p.bundleDiffCommand())
	return cmd
}

func (p program) bundleValidateCommand() *cobra.Command {
	var from []string
	cmd := &cobra.Command{
		Use:   "validate [DIR]",
		Short: "Say everything that is wrong with a bundle, and whether it can be rolled out",
		Long: `Say everything that is wrong with a bundle, with file and line, and with --from
also whether it can be rolled out node by node. Nothing is asked of etcd or of a
cluster, so that it fits a pipeline that builds releases.

Exit code 1: the bundle is wrong, or cannot be rolled out.`,
		Args: optionalDir,
		RunE: func(_ *cobra.Command, args []string) error {
			releases, err := parseReleases(from)
			if err != nil {
				return err
			}
			b, err := bundle.Open(dirOf(args))
			if err != nil {
				return p.bundleProblems(dirOf(args), err)
			}
			return p.validated(b, releases)
		},
	}
	cmd.Flags().StringSliceVar(&from, "from", from, "A `release` from which upgrades are supported: check that the bundle can be rolled out from there. May be given several times.")
	return cmd
}

// validated tells what a well bundle is, and judges its constraints.
func (p program) validated(b *bundle.Bundle, from []protocol.Release) error {
	var deadlocks []error
	for _, release := range from {
		if problem := protocol.Deadlock(release, b.Version.Release, b.Constraints); problem != "" {
			deadlocks = append(deadlocks, errors.New(problem))
		}
	}
	if len(deadlocks) > 0 {
		return errors.Join(deadlocks...)
	}
	fmt.Fprintf(p.stdout, "%s %s: minReconcilerRelease %s, minApiserverRelease %s, %s, %s\n",
		b.Name, b.Version, b.Constraints.MinReconciler, b.Constraints.MinApiserver, count(len(b.Objects), "object"), b.Digest)
	for _, release := range from {
		if note := protocol.OneWay(release, b.Version.Release, b.Constraints); note != "" {
			fmt.Fprintf(p.stdout, "note: %s\n", note)
		}
	}
	return nil
}

// bundleProblems prints what is wrong with a bundle one by one, as compilers do,
// so that editors and pipelines find the lines.
func (p program) bundleProblems(dir string, err error) error {
	load, ok := errors.AsType[*bundle.LoadError](err)
	if !ok {
		return err
	}
	for _, problem := range load.Problems {
		fmt.Fprintln(p.stdout, clean(problem.Error()))
	}
	return fmt.Errorf("bundle %q: %s", dir, count(len(load.Problems), "problem"))
}

func (p program) bundleDigestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "digest [DIR]",
		Short: "Print the digest of a bundle, as node records and /status show it",
		Long: `Print the digest of a bundle, as node records and /status show it. It is over
release, constraints and objects: how a manifest is written, and in which file it
stands, does not count.`,
		Args: optionalDir,
		RunE: func(_ *cobra.Command, args []string) error {
			b, err := bundle.Open(dirOf(args))
			if err != nil {
				return err
			}
			fmt.Fprintln(p.stdout, b.Digest)
			return nil
		},
	}
}

// dirOf is the argument that optionalDir allows; empty: the built-in bundle.
func dirOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// optionalDir allows one argument, the folder of a bundle.
func optionalDir(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return usagef("want one DIR, the folder of a bundle, or none; see %s --help", cmd.CommandPath())
	case len(args) == 1 && args[0] == "":
		// What a script leaves empty is a mistake, not the built-in bundle.
		return usagef("the DIR is empty; leave it out for the built-in bundle")
	}
	return nil
}

func parseReleases(words []string) ([]protocol.Release, error) {
	var out []protocol.Release
	for _, word := range words {
		release, err := protocol.ParseRelease(word)
		if err != nil {
			return nil, usagef("--from: %w", err)
		}
		out = append(out, release)
	}
	return out, nil
}

// count reads "1 object" or "2 objects".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
