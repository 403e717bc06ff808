package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/app"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// planOptions are the flags of `plan` beside those of etcd.
type planOptions struct {
	dir    string
	look   app.InspectorConfig
	output choice
}

func (p program) planCommand() *cobra.Command {
	opts := planOptions{output: choice{value: "table", of: []string{"table", "json"}}}
	cmd := withEtcd(&cobra.Command{
		Use:   "plan",
		Short: "Say what rolling a bundle out will do, node by node, before anybody rolls",
		Long: `Say what rolling a bundle out will do, node by node, before anybody rolls: who is
ready meanwhile, who leads, who waits for whom, and with --kubeconfig what becomes
of which object. It looks at etcd and the API as they are, and goes through the
rollout in thought, by the very decisions that the sidecars make. Nothing is
written.

Exit code 0: it rolls cleanly. 3: it does not, and OBSTACLES says why and what to
do. 1: etcd or the API is out of reach, or the bundle is wrong.`,
		Args: noArgs,
	}, func(ctx context.Context, client *etcd.Client, _ []string) error { return p.plan(ctx, client, opts) })
	flags := cmd.Flags()
	flags.StringVar(&opts.dir, "bundle", opts.dir, "The `directory` with bundle.yaml and the manifests that are to be rolled out. If empty, the built-in bundle.")
	bindLook(flags, &opts.look, "Kubeconfig `file` of the cluster. Any of its kube-apiservers will do. If empty, nothing is said of objects.")
	flags.VarP(&opts.output, "output", "o", "Form: "+opts.output.options()+".")
	complete(cmd, "output", &opts.output)
	return cmd
}

func (p program) plan(ctx context.Context, client *etcd.Client, opts planOptions) (err error) {
	b, err := bundle.Open(opts.dir)
	if err != nil {
		return err
	}
	in := protocol.Rollout{Bundle: b.Local()}
	if in.Fleet, in.Status, err = election.ReadSnapshot(ctx, client); err != nil {
		return err
	}
	var objects *objectsReport
	if opts.look.Kubeconfig != "" {
		opts.look.Bundle = b
		if objects, in.Mark, err = lookAtObjects(ctx, opts.look); err != nil {
			return err
		}
	}
	report := newPlanReport(b, in, objects)
	if err := p.printPlan(report, opts.output.value); err != nil {
		return err
	}
	if !report.Clean {
		return exitError{code: exitNotReady, err: fmt.Errorf("%s %s does not roll out cleanly: %s", b.Name, b.Version, count(len(report.Obstacles), "obstacle"))}
	}
	return nil
}

// lookAtObjects asks the API what would become of the objects, and what may be
// there.
func lookAtObjects(ctx context.Context, opts app.InspectorConfig) (*objectsReport, protocol.Mark, error) {
	inspector, err := app.NewInspector(opts)
	if err != nil {
		return nil, protocol.Mark{}, err
	}
	mark, err := inspector.Mark(ctx)
	if err != nil {
		return nil, mark, err
	}
	preview, err := inspector.Preview(ctx)
	if err != nil {
		return nil, mark, err
	}
	return newObjectsReport(preview), mark, nil
}

func (p program) printPlan(r planReport, form string) error {
	if form == "json" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("print plan: %w", err)
		}
		_, err = fmt.Fprintf(p.stdout, "%s\n", text)
		return err
	}
	planTable{table{w: p.stdout}}.write(r)
	return nil
}
