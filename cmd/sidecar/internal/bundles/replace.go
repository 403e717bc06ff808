package bundles

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
)

// replaceFlags are the flags of bundle replace.
type replaceFlags struct {
	from, to string
	cancel   bool
}

func (p program) replaceCommand() *cobra.Command {
	var f replaceFlags
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "replace --from NAME --to NAME",
		Short: "Let a bundle replace another one that has another name, once",
		Long: `Let a bundle replace another one that has another name (metadata.name of bundle.yaml),
once. Without it, a leader never replaces the objects of one bundle by those of
another: it applies and repairs nothing, because its --bundle may be wrong.

The leader takes over when it runs the bundle --to. Until then, sidecar status shows
what the replacement waits for. Then it is spent. To ask for it again before that
changes nothing.`,
		Args:    console.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return f.validate() },
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		if f.cancel {
			return p.cancelReplacement(ctx, client)
		}
		return p.replaceBundle(ctx, client, f)
	})
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "The `name` of the bundle that the objects are of.")
	flags.StringVar(&f.to, "to", "", "The `name` of the bundle that replaces it. At least one registered node must run it.")
	flags.BoolVar(&f.cancel, "cancel", false, "Delete a replacement that no leader has used yet.")
	return cmd
}

// validate returns an error that names the flag.
func (f replaceFlags) validate() error {
	const form = "lower-case letters, digits, hyphens and dots, at most 63, as metadata.name of a bundle.yaml"
	switch {
	case f.cancel && (f.from != "" || f.to != ""):
		return console.Usagef("--cancel needs neither --from nor --to")
	case f.cancel:
	case f.from == "" || f.to == "":
		return console.Usagef("set --from, the name of the bundle that the objects are of, and --to, the name of the one that replaces it")
	case !protocol.ValidBundleName(f.from):
		return console.Usagef("--from: %q: must have %s", f.from, form)
	case !protocol.ValidBundleName(f.to):
		return console.Usagef("--to: %q: must have %s", f.to, form)
	case f.from == f.to:
		return console.Usagef("--from and --to are both %s: a bundle need not replace itself", f.from)
	}
	return nil
}

func (p program) replaceBundle(ctx context.Context, client reach.Etcd, f replaceFlags) error {
	r := protocol.Replacement{From: f.from, To: f.to, Since: p.Now().UTC()}
	fleet, status, err := election.ReplaceBundle(ctx, client.Client, r)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "the bundle %s may replace %s, once; it %s\n",
		f.to, f.from, httpapi.Pasteable(protocol.ReplacementState(status, fleet, r), client.Flags))
	if status.Kind != protocol.StatusPresent {
		fmt.Fprintf(p.Stdout, "note: there is no status, so the leader compares %s with the mark in the API\n", f.from)
	}
	return nil
}

func (p program) cancelReplacement(ctx context.Context, client reach.Etcd) error {
	was, err := election.CancelReplacement(ctx, client.Client)
	switch {
	case err != nil:
		return err
	case was.Revision == 0:
		fmt.Fprintln(p.Stdout, "no replacement is waiting")
	default:
		fmt.Fprintf(p.Stdout, "the replacement of %s by %s is forgotten\n", was.From, was.To)
	}
	return nil
}
