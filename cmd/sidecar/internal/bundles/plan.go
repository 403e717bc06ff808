package bundles

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/kubeaccess"
	"github.com/lockstep-dev/lockstep/internal/rollout"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// planOptions are the flags of `plan`, except the flags of etcd.
type planOptions struct {
	dir     string
	inspect kubeaccess.InspectorConfig
	output  console.Choice
	back    bool
}

// planCommand is sidecar plan.
func (p program) planCommand() *cobra.Command {
	opts := planOptions{output: console.NewChoice("table", "json")}
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "plan",
		Short: "Show what the rollout of a bundle will do, node by node",
		Long: `Show what the rollout of a bundle will do, node by node: which nodes are ready
during each step, which node leads, and which nodes the leader waits for. With
--kubeconfig, also show what happens to each object.

This command reads etcd and the API as they are now, and simulates the rollout with
the same decision code that the sidecars run. Nothing is written.

Exit codes: 0 the rollout is clean, 3 it is not, and OBSTACLES has the reasons and
what to do, 2 wrong usage, 1 etcd or the API server is unreachable, or the bundle is
invalid.`,
		Args: console.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if opts.dir == "" {
				return console.Usagef("--bundle: required: the directory of the bundle to roll out, or %s for the built-in one", bundle.BuiltinName)
			}
			return nil
		},
	}, func(ctx context.Context, client reach.Etcd, _ []string) error { return p.plan(ctx, client, opts) })
	flags := cmd.Flags()
	flags.StringVar(&opts.dir, "bundle", opts.dir, "The `directory` of the bundle to roll out, or builtin. Required.")
	flags.BoolVar(&opts.back, "rollback", false, "Simulate sidecar rollback begin to the bundle's release first.")
	bindInspector(flags, &opts.inspect, "Kubeconfig `file` for any kube-apiserver of the cluster. If empty, objects are not compared.")
	console.BindOutput(cmd, &opts.output)
	return cmd
}

// warnOfFaults prints what an API server would reject, for a plan that asks none.
func (p program) warnOfFaults(dir string) {
	_, err := bundle.Validate(dir)
	problems, _ := fileProblems(err) // the plan itself reports another one
	for _, problem := range problems {
		fmt.Fprintln(p.Stderr, "warning: "+terminal.Clean(problem.Error()))
	}
}

func (p program) plan(ctx context.Context, client reach.Etcd, opts planOptions) (err error) {
	b, err := bundle.Open(opts.dir)
	if err != nil {
		return err
	}
	if opts.inspect.Kubeconfig == "" {
		p.warnOfFaults(opts.dir)
	}
	in := rollout.Input{Bundle: b.Local(), Rollback: opts.back}
	if in.Fleet, in.Status, in.Replacement, err = election.ReadSnapshot(ctx, client.Client); err != nil {
		return err
	}
	store, err := fleet.ReadStore(ctx, client.Client)
	if err != nil {
		return err
	}
	in.Store = store.Key.ID
	if in.Voters, err = client.Voters(ctx); err != nil {
		return err
	}
	if in.Removed, err = quorum.ReadRemovals(ctx, client.Client); err != nil {
		return err
	}
	in.Full = client.Full(ctx)
	var objects *objectsReport
	if opts.inspect.Kubeconfig != "" {
		opts.inspect.Bundle = b
		if objects, in.Mark, err = inspectObjects(ctx, opts.inspect); err != nil {
			return err
		}
	}
	report := newPlanReport(b, in, objects, client.Flags)
	report.turn = "sidecar turn" + reach.ServerOptions(p.Program) + client.Flags + " -- COMMAND"
	if opts.back && !in.Fleet.Rollback.On() {
		report.begin = "sidecar rollback begin --to " + b.Version.Release.String() + client.Flags
	}
	if err := p.printPlan(report, opts.output.Value); err != nil {
		return err
	}
	if !report.Clean {
		return console.ExitError{Code: console.ExitNotReady, Err: fmt.Errorf("%s %s cannot be rolled out cleanly: %s", b.Name, b.Version, terminal.Count(len(report.Obstacles), "obstacle"))}
	}
	return nil
}

// inspectObjects asks the API for the bundle's effect on the objects, and for the mark, which records every
// content that may be present.
func inspectObjects(ctx context.Context, opts kubeaccess.InspectorConfig) (*objectsReport, protocol.Mark, error) {
	inspector, err := kubeaccess.NewInspector(opts)
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

func (p program) printPlan(r PlanReport, form string) error {
	if form == "json" {
		return p.PrintJSON(r)
	}
	planTable{p.Printer()}.write(r)
	return nil
}
