package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// completer proposes words to a shell.
type completer = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// oneOf proposes words.
func oneOf(words ...string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// directories lets the shell propose directories.
func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// setCompletion sets the proposals for the arguments and flags of all commands below cmd. Without it, shells
// propose files.
func (p program) setCompletion(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		p.setCompletion(c)
	}
	if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = p.argumentCompleter(cmd)
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		propose := p.flagCompleter(cmd, f)
		if _, done := cmd.GetFlagCompletionFunc(f.Name); done || propose == nil {
			return
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, propose); err != nil {
			panic(err) // the flag does not exist: a mistake in this package
		}
	})
}

// argumentCompleter returns the completer for the arguments of a command, by its Use.
func (p program) argumentCompleter(cmd *cobra.Command) completer {
	switch _, arguments, _ := strings.Cut(cmd.Use, " "); {
	case cmd.HasSubCommands(), cmd.Hidden:
		return nil
	case strings.HasPrefix(strings.TrimPrefix(arguments, "["), "ID") && cmd.Name() != "revoke":
		return p.completeNode
	case arguments == "DIR":
		return directories
	case arguments == "FILE":
		return nil
	}
	return oneOf()
}

// flagCompleter returns the completer for a flag of cmd; nil: files.
func (p program) flagCompleter(cmd *cobra.Command, f *pflag.Flag) completer {
	switch f.Name {
	case "node":
		if cmd.Name() != "create" { // a token is for a node that does not exist yet
			return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return p.knownNodes(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
			}
		}
	case "add", "remove":
		return oneOf(protocol.RoleNames()...)
	}
	switch kind, _ := pflag.UnquoteUsage(f); {
	case kind == "directory":
		return directories
	case strings.Contains(kind, "file"):
		return nil
	}
	return oneOf()
}

// completeNode proposes the nodes that the sidecar on this machine knows, and behind one of
// them the roles.
func (p program) completeNode(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		if cmd.Name() == "set-roles" {
			return append(slices.Clone(protocol.RoleNames()), roleNone), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.knownNodes(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
}

// completionTimeout is how long a person waits for a proposal.
const completionTimeout = time.Second

// completeRelease proposes the releases of the nodes that the sidecar on this machine knows, and the release of
// the objects.
func (p program) completeRelease(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	report := p.knownReport(cmd.Context())
	if report == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	releases := []string{report.Reconciler.ContentRelease}
	for _, n := range report.Fleet.Nodes {
		releases = append(releases, n.Release)
	}
	slices.Sort(releases)
	releases = slices.DeleteFunc(slices.Compact(releases), func(release string) bool { return release == "" })
	return releases, cobra.ShellCompDirectiveNoFileComp
}

// knownNodes are the nodes that the sidecar on this machine knows.
func (p program) knownNodes(ctx context.Context) (ids []string) {
	report := p.knownReport(ctx)
	if report == nil {
		return nil
	}
	for _, n := range report.Fleet.Nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

// knownReport asks the sidecar that LOCKSTEP_SERVER names, or the one on this machine; nil: it does not answer,
// and a shell cannot show the reason.
func (p program) knownReport(ctx context.Context) *report.Status {
	var server serverFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	server.bind(flags)
	if p.applyEnv(flags) != nil {
		return nil
	}
	c, err := server.client(p)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	a, err := c.status(ctx)
	if err != nil {
		return nil
	}
	return &a.report
}

// plainUsage removes the marks in the texts of flags that only --help understands: shells
// show these texts beside the flags.
func plainUsage(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		plainUsage(c)
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
}
