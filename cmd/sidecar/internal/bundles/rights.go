package bundles

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/kubeaccess"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/rights"
)

// rightsFlags are the flags of bundle rights.
type rightsFlags struct {
	group, kubeconfig string
	all               bool
	output            console.Choice
}

func (p program) rightsCommand() *cobra.Command {
	f := rightsFlags{output: console.NewChoice("yaml", "json")}
	cmd := &cobra.Command{
		Use:   "rights DIR",
		Short: "Print the rights that the sidecars need for a bundle",
		Long: `Print the rights that the sidecars need for a bundle, as roles and bindings of RBAC
for kubectl apply: a ClusterRole, and a Role for each namespace that every cluster has.
They allow what a pass does with the objects of this bundle, and nothing else. DIR is the
directory of a bundle, or builtin.

What Lockstep itself needs, whatever the bundle, is printed before them with --all, and
is in deploy/kubeadm/cluster. To give both, pipe the output into kubectl apply -f -.

The rights of the bundle before stay in force: leaders need both until the upgrade is
over. The first lines of the output have the command that deletes the old ones.

A kind that is neither Kubernetes' own nor defined by a CRD in the bundle has a name in
the API that only a cluster knows: --kubeconfig asks it. Otherwise the name is a guess,
which is said on stderr.`,
		Args: oneDir(bundleDir),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.printRights(cmd.Context(), args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.group, "group", kubeadm.Group, "The `group` that all sidecars are in: it gets the rights.")
	flags.BoolVar(&f.all, "all", false, "Also print the rights that Lockstep itself needs.")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "Kubeconfig `file` for a cluster that serves the bundle's kinds. If empty, no cluster is asked.")
	console.BindOutput(cmd, &f.output)
	return cmd
}

func (p program) printRights(ctx context.Context, dir string, f rightsFlags) error {
	if f.group == "" || strings.ContainsAny(f.group, "\n\r") {
		return console.Usagef("--group: %q: must be the name of a group", f.group)
	}
	b, err := bundle.Open(dir)
	if err != nil {
		return p.ProblemsIn("bundle", dir, err)
	}
	var resolve rights.Resolve
	if f.kubeconfig != "" {
		ctx, cancel := context.WithTimeout(ctx, kubeaccess.RightsTimeout)
		defer cancel()
		if resolve, err = kubeaccess.Resolver(ctx, f.kubeconfig); err != nil {
			return err
		}
	}
	r, err := rights.Of(b, resolve)
	if err != nil {
		return err
	}
	for _, guess := range r.Guessed {
		fmt.Fprintf(p.Stderr, "warning: %s\n", terminal.Clean(guess.Warning("Ask a cluster that serves it, with --kubeconfig")))
	}
	return p.writeRights(r, f)
}

func (p program) writeRights(r rights.Rights, f rightsFlags) error {
	own := kubeadm.OwnRights(f.group)
	if f.output.Value == "yaml" {
		var out bytes.Buffer
		if f.all {
			fmt.Fprintf(&out, "%s---\n", own)
		}
		out.Write(r.YAML(f.group))
		_, err := out.WriteTo(p.Stdout)
		return err
	}
	var items []any
	for document := range strings.SplitSeq(string(own), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return err
		}
		if f.all {
			items = append(items, object)
		}
	}
	return p.PrintJSON(map[string]any{"apiVersion": "v1", "kind": "List", "items": append(items, r.Objects(f.group)...)})
}
