package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/status"
)

// overrideCommand is sidecar override.
func (p program) overrideCommand() *cobra.Command {
	return console.ParentOf(&cobra.Command{
		Use:   "override",
		Short: "Let this node serve in spite of its closed gate, for a limited time",
		Long: `Let this node serve in spite of its closed gate, for a limited time. This is for
emergencies: while an override is in force, nothing keeps a kube-apiserver from serving
whose release does not fit the objects.

These commands write and delete a file on this machine, --override-file of the sidecar.
So they work while etcd does not answer.`,
	}, p.overrideBeginCommand(), p.overrideEndCommand())
}

// overrideFlags are the flags of override begin.
type overrideFlags struct {
	file      string
	duration  time.Duration
	message   string
	confirmed bool
}

// minOverride is longer than the sidecar needs to notice an override.
const minOverride = 5 * time.Second

func bindOverrideFile(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "override-file", lockstep.DefaultOverrideFile, "The `file` that the sidecar on this machine has as --override-file.")
}

func (p program) overrideBeginCommand() *cobra.Command {
	var f overrideFlags
	cmd := &cobra.Command{
		Use:   "begin",
		Short: "Let this node serve whatever its gate says",
		Long: `Let this node serve whatever its gate says, for the time --for. The sidecar on this
machine notices it within two seconds; /readyz then answers 200 with a warning. It also
begins again after a restart of the sidecar. Without --yes, the command only shows what it would
do.

It does not open a gate that is closed because this node stops, has a duplicate node ID,
does not have the controller role, or because its services are not ready: then no
kube-apiserver is meant to run there.`,
		Args: console.NoArgs,
		RunE: func(*cobra.Command, []string) error { return p.overrideBegin(f) },
	}
	flags := cmd.Flags()
	bindOverrideFile(flags, &f.file)
	flags.DurationVar(&f.duration, "for", 0, "How long, at most "+protocol.MaxOverride.String()+". Required.")
	flags.StringVar(&f.message, "message", "", "Why, for the people who read the status.")
	flags.BoolVar(&f.confirmed, "yes", false, "Begin. Without this, the command only shows what it would do.")
	return cmd
}

func (p program) overrideBegin(f overrideFlags) error {
	o := protocol.Override{Until: p.Now().Add(f.duration).UTC().Truncate(time.Second), Message: terminal.Clean(f.message)}
	switch {
	case f.duration < minOverride || f.duration > protocol.MaxOverride:
		return console.Usagef("--for: %s: must be at least %s, and at most %s, like --for=30m", f.duration, minOverride, protocol.MaxOverride)
	case len(o.Message) > status.MaxOverrideMessage:
		return console.Usagef("--message: has %d bytes; at most %d", len(o.Message), status.MaxOverrideMessage)
	case !f.confirmed:
		fmt.Fprintf(p.Stdout, "Nothing was changed. With --yes, this node serves whatever its gate says %s:\n"+
			"its kube-apiserver may then serve objects that its release does not fit.\n", o)
		return nil
	}
	err := os.MkdirAll(filepath.Dir(f.file), 0o755)
	if err == nil { // the sidecar must not read half of it, and may run as another user
		err = durable.WriteFile(f.file, []byte(status.EncodeOverride(o)), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the override: %w", err)
	}
	fmt.Fprintf(p.Stdout, "THE GATE OF THIS NODE IS OVERRIDDEN %s. To end that now: sidecar override end%s\n", o, status.OverrideFlag(f.file))
	return nil
}

func (p program) overrideEndCommand() *cobra.Command {
	file := ""
	var server reach.Server
	cmd := &cobra.Command{
		Use:   "end",
		Short: "Let the gate of this node decide again",
		Args:  console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := os.Remove(file)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				fmt.Fprintf(p.Stdout, "there is no override: %s does not exist\n", file)
				for _, node := range overriddenNodes(cmd.Context(), &server) {
					fmt.Fprintln(p.Stdout, terminal.Clean(node))
				}
				return nil
			case err != nil:
				return fmt.Errorf("delete the override: %w", err)
			}
			fmt.Fprintln(p.Stdout, "the override has ended: the gate of this node decides again")
			return nil
		},
	}
	bindOverrideFile(cmd.Flags(), &file)
	server.Bind(cmd.Flags())
	return cmd
}

// overriddenNodes returns a line for each other node that reports an override, as the sidecar on this machine sees
// them. Without an answer it returns none.
func overriddenNodes(ctx context.Context, f *reach.Server) []string {
	client, err := f.Client(console.Program{})
	if err != nil {
		return nil
	}
	a, err := client.Status(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for _, n := range a.Report.Fleet.Nodes {
		i := slices.IndexFunc(n.Warnings, func(w report.Warning) bool { return w.Reason == string(protocol.Overridden) })
		if n.ID == a.Report.Node.ID || i < 0 {
			continue
		}
		out = append(out, fmt.Sprintf("node %s has one: to end that, %s", n.ID,
			protocol.EndsOverride([]protocol.Warning{{Reason: protocol.Overridden, Message: n.Warnings[i].Message}})))
	}
	return out
}
