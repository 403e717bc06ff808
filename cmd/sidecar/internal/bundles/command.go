package bundles

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/internal/trusted"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// program is the outside world, with the methods of these commands.
type program struct{ console.Program }

// bundleCommand is sidecar bundle.
func (p program) bundleCommand() *cobra.Command {
	return console.ParentOf(&cobra.Command{
		Use:   "bundle",
		Short: "Validate a bundle, compare it with a cluster, and print its rights",
		Long: `Validate a bundle, compare it with a cluster, and print its digest and the rights that
it needs. Only replace writes something. DIR is a directory, or builtin for the built-in
bundle. A directory of that name is ./builtin.`,
	}, p.validateCommand(), p.digestCommand(), p.diffCommand(),
		p.replaceCommand(), p.rightsCommand())
}

func (p program) validateCommand() *cobra.Command {
	var from []string
	output := console.NewChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "validate DIR",
		Short: "Print everything that is wrong with a bundle",
		Long: `Print everything that is wrong with a bundle, with file and line. With --from, also
check whether the bundle can be rolled out node by node from that release; if it is
the directory of a bundle, also whether this one replaces a bundle of another name. No
etcd and no cluster is needed, so this fits a pipeline that builds releases.

Exit code 1: the bundle is invalid, or it cannot be rolled out.`,
		Args: oneDir(bundleDir),
		RunE: func(_ *cobra.Command, args []string) error {
			origins, err := parseOrigins(from)
			if err != nil {
				return err
			}
			b, err := bundle.Validate(args[0])
			if b != nil {
				for _, found := range trusted.FindAll(b.Paths()) {
					fmt.Fprintf(p.Stderr, "warning: others can change the bundle: %s\n", terminal.Clean(found.Problem()))
				}
			}
			switch {
			case output.Value == "json":
				return p.validatedJSON(b, origins, err)
			case err != nil:
				return p.ProblemsIn("bundle", args[0], err)
			}
			return p.validated(b, origins)
		},
	}
	cmd.Flags().StringSliceVar(&from, "from", from, "A `release` from which upgrades are supported, or the directory of its bundle. Can be repeated.")
	console.BindOutput(cmd, &output)
	return cmd
}

// validatedJSON prints the same for programs. Invalid is the error of loading the bundle; nil: it is valid.
func (p program) validatedJSON(b *bundle.Bundle, from []origin, invalid error) error {
	problems, err := fileProblems(invalid)
	if err != nil {
		return err
	}
	out := validateReport{Problems: problems, Rollouts: []rolloutReport{}}
	if invalid == nil {
		out = newValidateReport(b, from)
	}
	if err := p.PrintJSON(out); err != nil || out.Valid {
		return err
	}
	return console.ExitError{Code: console.ExitFailed}
}

// validated describes a valid bundle, and checks whether its constraints allow upgrades from these releases.
func (p program) validated(b *bundle.Bundle, from []origin) error {
	out := newValidateReport(b, from)
	var deadlocks []error
	for _, r := range out.Rollouts {
		if r.Problem != "" {
			deadlocks = append(deadlocks, errors.New(r.Problem))
		}
	}
	if len(deadlocks) > 0 {
		return errors.Join(deadlocks...)
	}
	fmt.Fprintf(p.Stdout, "%s %s: minReconcilerRelease %s, minApiserverRelease %s%s, %s, %s\n",
		b.Name, b.Version, b.Constraints.MinReconciler, b.Constraints.MinAPIServer, terminal.Prefixed(", for kube-apiserver ", b.APIServer),
		terminal.Count(out.Objects, "object"), b.Digest)
	for i, r := range out.Rollouts {
		text := rolloutText(from[i].release, b.Version.Release)
		if r.Replaces != "" {
			text = "not an upgrade: this bundle " + replaceNotice(r.Replaces, b.Name)
		}
		fmt.Fprintf(p.Stdout, "from %s: %s\n", r.From, text)
		if r.Note != "" {
			fmt.Fprintf(p.Stdout, "note: %s\n", r.Note)
		}
	}
	return nil
}

// rolloutText says what was found about a rollout that has no deadlock.
func rolloutText(from, to protocol.Release) string {
	switch order := from.Compare(to); {
	case order < 0:
		return fmt.Sprintf("%s can be rolled out, node by node", to)
	case order == 0:
		return "the same release, so there is no rollout to check"
	}
	return fmt.Sprintf("it is newer than this bundle, so there is no rollout to check; what it costs to go back, the check of the bundle of %s says, with --from %s", from, to)
}

func (p program) digestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "digest DIR",
		Short: "Print the digest of a bundle",
		Long: `Print the digest of a bundle, as /status and node records contain it. The digest
covers release, constraints and objects. It does not depend on how a manifest is
formatted, or on which file contains it.`,
		Args: oneDir(bundleDir),
		RunE: func(_ *cobra.Command, args []string) error {
			b, err := bundle.Open(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(p.Stdout, b.Digest)
			return nil
		},
	}
}

// oneDir allows one argument: a directory, which what describes. An empty one does not mean the built-in bundle: an
// empty variable in a script is a mistake.
func oneDir(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return console.Usagef("expected one DIR%s; see %s --help", what, cmd.CommandPath())
		}
		return nil
	}
}

// bundleDir describes the argument of a command about a bundle.
const bundleDir = ": the directory of a bundle, or " + bundle.BuiltinName

// origin is the release, and perhaps the bundle, from which a rollout starts.
type origin struct {
	release protocol.Release
	bundle  string // its name; empty: only the release is known
}

// replacedBy returns the name of the bundle whose objects another bundle would replace; empty: none is known.
func (o origin) replacedBy(b *bundle.Bundle) string {
	if o.bundle == b.Name {
		return ""
	}
	return o.bundle
}

// replaceNotice explains that a bundle replaces another one, and gives the command that allows it.
func replaceNotice(from, to string) string {
	return fmt.Sprintf("replaces the bundle %s, which no leader does before you type: sidecar bundle replace --from %s --to %s", from, from, to)
}

// parseOrigins parses releases, and reads directories of bundles.
func parseOrigins(words []string) ([]origin, error) {
	var out []origin
	for _, word := range words {
		release, err := semver.ParseRelease(word)
		if err == nil {
			out = append(out, origin{release: release})
			continue
		}
		if info, statErr := os.Stat(word); word != bundle.BuiltinName && (statErr != nil || !info.IsDir()) {
			return nil, console.Usagef("--from: %w", err)
		}
		before, err := bundle.Open(word)
		if err != nil {
			return nil, fmt.Errorf("--from: bundle %q: %w", word, err)
		}
		out = append(out, origin{before.Version.Release, before.Name})
	}
	return out, nil
}
