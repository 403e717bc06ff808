package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/runflags"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/table"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
)

// turnFlags are the flags of turn and turn begin.
type turnFlags struct {
	duration, wait, drain time.Duration
	message               string
	server                reach.Server
}

const defaultTurnWait = 30 * time.Minute

func (f *turnFlags) bind(flags *pflag.FlagSet) {
	f.server.Bind(flags)
	flags.DurationVar(&f.duration, "for", protocol.TurnTime, "The limit of the turn. When it is over, every node warns of it.")
	flags.DurationVar(&f.wait, "wait", defaultTurnWait, "Maximum time to wait for the turn. 0: no limit.")
	flags.DurationVar(&f.drain, "drain", nodeservices.TurnDrain, "How long the node is out of service before the work, so that load balancers notice.")
	flags.StringVar(&f.message, "message", "", "Why, for the people who read the status.")
	runflags.AllowZero(flags, "wait")
	runflags.AllowZero(flags, "drain")
}

// validate returns an error that names the flag.
func (f *turnFlags) validate() error {
	switch {
	case f.duration < time.Second:
		return console.Usagef("--for: %s: must be 1s or more", f.duration)
	case f.wait < 0:
		return console.Usagef("--wait: %s: must be 0 or more", f.wait)
	case f.drain < 0:
		return console.Usagef("--drain: %s: must be 0 or more", f.drain)
	case len(f.message) > protocol.MaxCordonMessage:
		return console.Usagef("--message: has %d bytes; at most %d", len(f.message), protocol.MaxCordonMessage)
	}
	_, err := f.server.Client(console.Program{})
	return err
}

// ranError is the error of a turn whose command ran.
type ranError struct{ error }

func (e ranError) Unwrap() error { return e.error }

// withoutEtcd adds to the error of a command that etcd does not answer how the work can be done all the same, if it
// was not done.
func withoutEtcd(cmd *cobra.Command, work string) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		_, ran := errors.AsType[ranError](err)
		if _, away := errors.AsType[reach.AwayError](err); away && !ran {
			return fmt.Errorf("%w; while etcd does not answer, no node gets a turn: repair etcd first, or %s without a turn, on one node after another", err, work)
		}
		return err
	}
	return cmd
}

// turnCommand is sidecar turn.
func (p program) turnCommand() *cobra.Command {
	var f turnFlags
	cmd := withoutEtcd(reach.WithEtcd(&cobra.Command{
		Use:   "turn [flags] -- COMMAND [ARG...]",
		Short: "Run a command while this node is out of service and all others serve",
		Long: `Run a command on this node in its turn: one node after another. The command waits until
all other nodes serve and none of them has a turn. Then this node leaves the service, and
after --drain COMMAND runs. When it has succeeded and the node serves again, the next node
gets its turn. If it fails, the node keeps the turn, and the others go on serving. If another
node stops serving before COMMAND runs, this one gives its turn back, and waits again. The
only node gets no turn.

Started again with the same command line, it continues its turn: after it was killed, or
the machine was rebooted. A turn of reboot, shutdown or systemctl reboot ends by itself
when the machine is back.

Exit codes: that of COMMAND; 7 no turn within --wait, 8 the command has succeeded and the
node does not serve afterwards, or its turn was not ended; 1 the turn was not taken, 2 wrong
usage.`,
		Args: cobra.ArbitraryArgs,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			switch at := cmd.ArgsLenAtDash(); {
			case at < 0 && len(args) > 0:
				return console.Usagef("%q: write -- before the command to run; or see sidecar turn --help", args[0])
			case at > 0:
				return console.Usagef("unexpected argument %q before --; see sidecar turn --help", args[0])
			case len(args) == 0:
				return console.Usagef("the command to run is missing: sidecar turn -- COMMAND; see sidecar turn --help")
			}
			return f.validate()
		},
	}, func(ctx context.Context, client reach.Etcd, args []string) error {
		w, err := p.newTurnWork(client, f, args)
		if err != nil {
			return err
		}
		return w.run(ctx, args)
	}), "run the command")
	f.bind(cmd.Flags())
	cmd.AddCommand(p.turnBeginCommand(), p.turnEndCommand(), p.turnStatusCommand(), p.turnSetCommand())
	return cmd
}

func (p program) turnBeginCommand() *cobra.Command {
	var f turnFlags
	cmd := withoutEtcd(reach.WithEtcd(&cobra.Command{
		Use:   "begin",
		Short: "Wait for a turn of this node, and keep it until sidecar turn end",
		Long: `Wait for a turn of this node, take it out of service, and return when --drain has passed.
The turn lasts until sidecar turn end. If this node has such a turn already, that goes on.

Exit codes: 0 this node has the turn and is out of service, 7 no turn within --wait, 1 the
turn was not taken, 2 wrong usage.`,
		Args:    console.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return f.validate() },
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		w, err := p.newTurnWork(client, f, nil)
		if err != nil {
			return err
		}
		waiting, stop := console.UntilSignal(ctx)
		defer stop()
		if _, err := w.take(waiting); err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "node %s has the turn, and is out of service; when the work is done: %s\n",
			w.want.Node, httpapi.Pasteable("sidecar turn end "+string(w.want.Node), client.Flags))
		return nil
	}), "do the work")
	f.bind(cmd.Flags())
	return cmd
}

// turnEnd are the flags of turn end.
type turnEnd struct {
	server reach.Server
	wait   time.Duration
	force  bool
}

func (p program) turnEndCommand() *cobra.Command {
	var f turnEnd
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "end [ID]",
		Short: "Return the node to service, and end its turn",
		Long: `Say that the work of a turn is done. The node returns to service, and its turn ends when it
serves again. Without ID, it is this node. While a command runs in the turn, it is refused. The
turn of a node that is dead, or cannot serve, is ended with --force: then another node may
leave the service as well.

Exit codes: 0 the node has no turn any more, 8 it does not serve within --wait and keeps
the turn, 1 nothing was changed, 2 wrong usage.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return console.Usagef("unexpected argument %q; see sidecar turn end --help", args[1])
			}
			return nil
		},
		PreRunE: func(_ *cobra.Command, args []string) error {
			_, err := f.server.Client(console.Program{})
			switch {
			case f.wait < 0:
				return console.Usagef("--wait: %s: must be 0 or more", f.wait)
			case f.force && len(args) == 0:
				return console.Usagef("--force: name the node, as in sidecar turn end cp-2 --force")
			case len(args) == 1:
				return errors.Join(err, checkNodeID(args[0]))
			}
			return err
		},
	}, func(ctx context.Context, client reach.Etcd, args []string) error {
		return p.endTurn(ctx, client, f, args)
	})
	f.server.Bind(cmd.Flags())
	cmd.Flags().DurationVar(&f.wait, "wait", defaultTurnWait, "Maximum time to wait until the node serves. 0: no limit.")
	runflags.AllowZero(cmd.Flags(), "wait")
	cmd.Flags().BoolVar(&f.force, "force", false, "Also if the node does not serve, or its work is not done.")
	return cmd
}

func (p program) endTurn(ctx context.Context, client reach.Etcd, f turnEnd, args []string) error {
	server, err := f.server.Client(p.Program)
	if err != nil {
		return err
	}
	w := &turnWork{program: p, client: client, server: server, causes: console.WaitCauses{Out: p.Stderr}}
	if len(args) == 1 {
		w.want.Node = protocol.NodeID(args[0])
	} else if w.want.Node, err = w.node(ctx); err != nil {
		return err
	}
	if f.force {
		_, err = fleet.ForceTurnEnd(ctx, client.Client, w.want.Node)
	} else {
		err = w.endHeld(ctx, f.wait)
	}
	switch {
	case errors.Is(err, fleet.ErrNoTurn):
		if err := w.withoutTurn(ctx); err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "node %s has no turn\n", w.want.Node)
		return nil
	case err != nil:
		return err
	case f.force:
		fmt.Fprintf(p.Stdout, "the turn of node %s has ended by force; sidecar status shows whether it serves\n", w.want.Node)
		return nil
	}
	fmt.Fprintf(p.Stdout, "node %s serves, and its turn has ended\n", w.want.Node)
	return nil
}

func (p program) turnStatusCommand() *cobra.Command {
	output := console.NewChoice("text", "json")
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "status",
		Short: "Show which node has a turn, which nodes wait, and why",
		Long: `Show which node has a turn, since when and for what, and which nodes wait, in their order,
and why.`,
		Args: console.NoArgs,
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		f, err := fleet.List(ctx, client.Client)
		if err != nil {
			return err
		}
		voters, err := client.Voters(ctx)
		if err != nil {
			return err
		}
		now := p.Now()
		r := httpapi.NewTurns(f, voters, func(t protocol.Turn) bool { return t.Overdue(now) })
		for i := range r.Held {
			r.Held[i].Remedy = httpapi.Pasteable(r.Held[i].Remedy, client.Flags)
		}
		if output.Value == "json" {
			return p.PrintJSON(r)
		}
		lines := table.Status{Now: now}.Turns(r)
		if len(lines) == 0 {
			lines = []string{"no node has a turn, and none waits"}
		}
		for _, line := range lines {
			fmt.Fprintln(p.Stdout, terminal.Clean(line))
		}
		return nil
	})
	console.BindOutput(cmd, &output)
	return cmd
}

func (p program) turnSetCommand() *cobra.Command {
	turns := 0
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "set --turns N",
		Short: "Set how many nodes of the fleet may have a turn at the same time",
		Long: `Set how many nodes of the fleet may have a turn at the same time, by default one. It holds for
all nodes, and for the turns that are taken from now on. A turn never takes the last node in
service, or the majority from etcd.`,
		Args: console.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if turns < 1 || turns > protocol.MaxTurns {
				return console.Usagef("--turns: %d: must be between 1 and %d", turns, protocol.MaxTurns)
			}
			return nil
		},
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		if err := fleet.SetTurnLimit(ctx, client.Client, turns); err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "at most %s may have a turn at the same time\n", terminal.Count(turns, "node"))
		return nil
	})
	cmd.Flags().IntVar(&turns, "turns", 1, "How many nodes may have a turn.")
	return cmd
}
