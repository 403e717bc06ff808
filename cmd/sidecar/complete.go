package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/nodes"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

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
		if propose := p.flagCompleter(cmd, f); propose != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, propose) // the flag exists
		}
	})
}

// argumentCompleter returns the completer for the arguments of a command, by its Use.
func (p program) argumentCompleter(cmd *cobra.Command) cobra.CompletionFunc {
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
	return cobra.NoFileCompletions
}

// flagCompleter returns the completer for a flag of cmd; nil: files.
func (p program) flagCompleter(cmd *cobra.Command, f *pflag.Flag) cobra.CompletionFunc {
	if choice, is := f.Value.(*console.Choice); is {
		return cobra.FixedCompletions(choice.Of, cobra.ShellCompDirectiveNoFileComp)
	}
	switch f.Name {
	case "node":
		known := nodesOf
		if cmd.Name() == "create" {
			known = nodesWithoutMember // a token is for a node that joins
		}
		return p.completeKnown(known)
	case "from", "to":
		switch cmd.Name() {
		case "replace":
			return p.completeKnown(map[string]knownNames{"from": bundleOfObjects, "to": otherBundles}[f.Name])
		case "validate":
			return directories // or a release
		case "begin": // of a rollback
			return p.completeKnown(releasesOf)
		}
	case "add", "remove":
		return cobra.FixedCompletions(protocol.RoleNames(), cobra.ShellCompDirectiveNoFileComp)
	}
	switch kind, _ := pflag.UnquoteUsage(f); {
	case kind == "directory":
		return directories
	case strings.Contains(kind, "file"):
		return nil
	}
	return cobra.NoFileCompletions
}

// completeNode proposes the nodes that the sidecar on this machine knows, and behind one of
// them the roles.
func (p program) completeNode(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		if cmd.Name() == "set-roles" {
			return append(slices.Clone(protocol.RoleNames()), nodes.RoleNone), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeKnown(nodesOf)(cmd, args, "")
}

// knownNames are names in a report.
type knownNames func(*report.Status) []string

// completeKnown proposes names in the report of the sidecar on this machine.
func (p program) completeKnown(names knownNames) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		known := p.knownReport(cmd.Context())
		if known == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out := names(known)
		slices.Sort(out)
		return slices.DeleteFunc(slices.Compact(out), func(name string) bool { return name == "" }), cobra.ShellCompDirectiveNoFileComp
	}
}

func nodesOf(r *report.Status) (ids []string) {
	for _, n := range r.Fleet.Nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

func nodesWithoutMember(r *report.Status) []string {
	return slices.DeleteFunc(nodesOf(r), func(id string) bool {
		return slices.ContainsFunc(r.Cluster.Members, func(m report.Member) bool { return m.Node == id })
	})
}

func bundleOfObjects(r *report.Status) []string { return []string{r.Reconciler.Bundle} }

// otherBundles are those that nodes run and that are not the objects' bundle.
func otherBundles(r *report.Status) (names []string) {
	for _, n := range r.Fleet.Nodes {
		if n.Bundle != r.Reconciler.Bundle {
			names = append(names, n.Bundle)
		}
	}
	return names
}

// releasesOf are the releases of the nodes, and the release of the objects.
func releasesOf(r *report.Status) []string {
	releases := []string{r.Reconciler.ContentRelease}
	for _, n := range r.Fleet.Nodes {
		releases = append(releases, n.Release)
	}
	return releases
}

// completionTimeout is how long a person waits for a proposal.
const completionTimeout = time.Second

// knownReport asks the sidecar that LOCKSTEP_SERVER names, or the one on this machine; nil: it does not answer,
// and a shell cannot show the reason.
func (p program) knownReport(ctx context.Context) *report.Status {
	var server reach.Server
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	server.Bind(flags)
	if p.ApplyEnv(flags) != nil {
		return nil
	}
	c, err := server.Client(p.Program)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	a, err := c.Status(ctx)
	if err != nil {
		return nil
	}
	return &a.Report
}

// plainUsage removes the marks in the texts of flags that only --help understands: shells
// show these texts beside the flags.
func plainUsage(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		plainUsage(c)
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
}
