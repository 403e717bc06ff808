package nodes

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/table"
	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/protocol"
)

// rollbackCommand is sidecar rollback.
func (p program) rollbackCommand() *cobra.Command {
	return console.ParentOf(&cobra.Command{
		Use:   "rollback",
		Short: "Bring the objects of an older release back while the other nodes serve",
		Long: `Bring the objects of an older release back while the other nodes serve. While a rollback
is under way, only nodes of exactly that release lead. The first node that is started with it
brings the objects back; the others serve meanwhile, and follow one after another.

sidecar plan --rollback --bundle DIR shows it node by node before.`,
	}, p.rollbackBeginCommand(), p.rollbackEndCommand(), p.rollbackStatusCommand())
}

// rollbackFlags are the flags of rollback begin.
type rollbackFlags struct {
	to       string
	release  protocol.Release // that was typed, after validate
	duration time.Duration
	extend   bool // the user typed the duration
	force    bool
}

func (p program) rollbackBeginCommand() *cobra.Command {
	f := rollbackFlags{duration: 24 * time.Hour}
	output := console.NewChoice("text", "json")
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "begin --to RELEASE",
		Short: "Let only nodes of an older release lead, so that its objects come back",
		Long: `Let only nodes of an older release lead, so that its objects come back before all nodes
have gone back. Then stop one node after another, and start it with that release.

The rollback ends by itself when the objects and all nodes are there, or when its time is
over. To begin the same rollback again changes nothing, or its end if --for is set.`,
		Args: console.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			f.extend = cmd.Flags().Changed("for")
			return f.validate()
		},
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		return p.beginRollback(ctx, client, f, output)
	})
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "The `release` to go back to, like 1.0.0. Required.")
	flags.DurationVar(&f.duration, "for", f.duration, "How long the rollback lasts at most, like 2h.")
	flags.BoolVar(&f.force, "force", false, "Begin although no node of a newer release fits the older objects: gates will be closed.")
	console.BindOutput(cmd, &output)
	return cmd
}

// validate returns an error that names the flag.
func (f *rollbackFlags) validate() (err error) {
	f.release, err = semver.ParseRelease(f.to)
	switch {
	case f.to == "":
		return console.Usagef("--to: required: the release to go back to, like 1.0.0")
	case err != nil:
		return console.Usagef("--to: %w", err)
	case f.duration < time.Minute || f.duration > protocol.MaxRollbackTime:
		return console.Usagef("--for: must be between 1m and %s", protocol.MaxRollbackTime)
	}
	return nil
}

func (p program) beginRollback(ctx context.Context, client reach.Etcd, f rollbackFlags, output console.Choice) error {
	now := p.Now().UTC().Truncate(time.Second)
	r := protocol.Rollback{To: f.release, By: p.WhoTypes(), Since: now, Until: now.Add(f.duration)}
	request := election.RollbackRequest{Rollback: r, Force: f.force, Extend: f.extend}
	begun, err := election.BeginRollback(ctx, client.Client, request)
	if err != nil {
		return err
	}
	if was := begun.Fleet.Rollback; output.Value == "text" && begun.Before {
		changed := "nothing has changed"
		if f.extend {
			changed = "only its end has changed"
		}
		fmt.Fprintf(p.Stdout, "it is under way already, since %s%s; %s\n", was.Since.UTC().Format(time.RFC3339), table.ByWhom(was.By), changed)
	}
	if stops := protocol.JudgeRollback(begun.Status, begun.Fleet, f.release).Stops; stops != "" && output.Value == "text" {
		fmt.Fprintln(p.Stdout, stops)
	}
	return p.printRollback(client, begun.Status, begun.Fleet, output)
}

func (p program) rollbackEndCommand() *cobra.Command {
	output := console.NewChoice("text", "json")
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "end",
		Short: "Give a rollback up: the newest release leads again",
		Long: `Give a rollback up: the newest release that is alive leads again, and brings its objects.
It can be begun again.`,
		Args: console.NoArgs,
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		was, err := election.EndRollback(ctx, client.Client)
		switch {
		case err != nil:
			return err
		case output.Value == "json":
			return p.PrintJSON(map[string]any{"ended": was.On()})
		case !was.On():
			fmt.Fprintln(p.Stdout, "no rollback is under way")
		default:
			fmt.Fprintf(p.Stdout, "%s has ended\n", was)
		}
		return nil
	})
	console.BindOutput(cmd, &output)
	return cmd
}

func (p program) rollbackStatusCommand() *cobra.Command {
	output := console.NewChoice("text", "json")
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "status",
		Short: "Show the rollback that is under way, and what it waits for",
		Long: `Show the rollback that is under way, who asked for it, until when it lasts, and what it
waits for.`,
		Args: console.NoArgs,
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		fleet, status, _, err := election.ReadSnapshot(ctx, client.Client)
		if err != nil {
			return err
		}
		return p.printRollback(client, status, fleet, output)
	})
	console.BindOutput(cmd, &output)
	return cmd
}

func (p program) printRollback(client reach.Etcd, v protocol.StatusView, f protocol.Fleet, output console.Choice) error {
	shown := httpapi.NewRollback(v, f)
	if output.Value == "json" {
		return p.PrintJSON(map[string]any{"rollback": shown})
	}
	if shown == nil {
		fmt.Fprintln(p.Stdout, "no rollback is under way")
		return nil
	}
	fmt.Fprintf(p.Stdout, "%s is under way: %s\n", f.Rollback, httpapi.Pasteable(shown.Message, client.Flags))
	return nil
}
