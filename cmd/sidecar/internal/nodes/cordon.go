package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// cordonFlags are the flags of cordon.
type cordonFlags struct {
	duration time.Duration
	message  string
	force    bool
	timeout  time.Duration
}

const defaultCordonTimeout = 30 * time.Second

// cordonCommand is sidecar cordon.
func cordonCommand(caller console.Program) *cobra.Command {
	p := program{caller}
	var f cordonFlags
	output := console.NewChoice("text", "json")
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "cordon ID",
		Short: "Take a node out of service: close its gate, and let another node lead",
		Long: `Take a node out of service, for example before its etcd is restarted. The gate of the
node closes, so load balancers send no new connections to its kube-apiserver, and
another node leads. The command returns when both is done. sidecar uncordon ends it.

The node stays registered: leaders wait for it as before. The last node that is in
service is refused: without it, no kube-apiserver would serve.

Exit codes: 0 the node is out of service, 1 nothing was changed, 2 wrong usage, 3 the
node did not confirm before --timeout; the cordon stays.`,
		Args: console.OneArg("ID"),
		PreRunE: func(_ *cobra.Command, args []string) error {
			return errors.Join(checkNodeID(args[0]), f.validate())
		},
	}, func(ctx context.Context, client reach.Etcd, args []string) error {
		r, err := p.cordon(ctx, client, args[0], f)
		return p.printCordon(r, err, output.Value)
	})
	flags := cmd.Flags()
	flags.DurationVar(&f.duration, "for", 0, "After this time, the node's sidecar ends the cordon, by its clock. 0: only sidecar uncordon does.")
	flags.StringVar(&f.message, "message", "", "Why, for the people who read the status.")
	flags.BoolVar(&f.force, "force", false, "Also if no other node is in service: then no kube-apiserver is.")
	flags.DurationVar(&f.timeout, "timeout", defaultCordonTimeout, "Maximum time to wait until the node confirms.")
	console.BindOutput(cmd, &output)
	return cmd
}

// uncordonCommand is sidecar uncordon.
func uncordonCommand(caller console.Program) *cobra.Command {
	p := program{caller}
	var timeout time.Duration
	output := console.NewChoice("text", "json")
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "uncordon ID",
		Short: "Return a node to service",
		Long: `Return a node to service. Its gate opens if its release fits the objects. The
command returns when the gate has been decided.

Exit codes: 0 the cordon is removed, 1 nothing was changed, 2 wrong usage, 3 the node
did not confirm before --timeout; the cordon is removed all the same.`,
		Args: console.OneArg("ID"),
		PreRunE: func(_ *cobra.Command, args []string) error {
			return errors.Join(checkNodeID(args[0]), cordonFlags{timeout: timeout}.validate())
		},
	}, func(ctx context.Context, client reach.Etcd, args []string) error {
		r, err := p.uncordon(ctx, client, protocol.NodeID(args[0]), timeout)
		return p.printCordon(r, err, output.Value)
	})
	console.BindOutput(cmd, &output)
	cmd.Flags().DurationVar(&timeout, "timeout", defaultCordonTimeout, "Maximum time to wait until the node confirms.")
	return cmd
}

// validate returns an error that names the flag.
func (f cordonFlags) validate() error {
	switch {
	case f.duration < 0:
		return console.Usagef("--for: %s: must be 0 or more", f.duration)
	case f.duration > 0 && f.duration < time.Second:
		return console.Usagef("--for: %s: must be 0, or 1s or more", f.duration)
	case f.timeout < 0:
		return console.Usagef("--timeout: %s: must be more than 0", f.timeout)
	case len(f.message) > protocol.MaxCordonMessage:
		return console.Usagef("--message: has %d bytes; at most %d", len(f.message), protocol.MaxCordonMessage)
	}
	return nil
}

func (p program) cordon(ctx context.Context, client reach.Etcd, name string, f cordonFlags) (cordonReport, error) {
	id, cordon := protocol.NodeID(name), protocol.Cordon{Since: p.Now().UTC(), Message: terminal.Clean(f.message), By: p.WhoTypes()}
	if f.duration > 0 {
		cordon.Until = cordon.Since.Add(f.duration)
	}
	was, err := fleet.SetCordon(ctx, client.Client, id, fleet.CordonChange{Cordon: cordon, Force: f.force})
	switch {
	case errors.Is(err, fleet.ErrLastInService):
		return cordonReport{}, fmt.Errorf("%w; return another node to service first, or add --force", err)
	case err != nil:
		return cordonReport{}, err
	case !was.Node.Roles.Controller:
		return newCordonReport(was, cordon, fmt.Sprintf("node %s is cordoned %s; it does not have the role %s, so its gate was closed already", id, cordon, protocol.RoleController)), nil
	case !was.Alive:
		return newCordonReport(was, cordon, fmt.Sprintf("node %s is cordoned %s; its sidecar is not alive: if it is only cut off from etcd, its gate may be open still", id, cordon)), nil
	}
	left, err := nodeAwaited{client, id, f.timeout}.until(ctx, func(r *protocol.Record) bool {
		return outOfService(r) || overWhenRead(r, cordon) != ""
	})
	if err != nil {
		return cordonReport{}, err
	}
	if problem := overWhenRead(&left, cordon); problem != "" {
		return cordonReport{}, fmt.Errorf("node %s: %s", id, problem)
	}
	if !left.Alive {
		return newCordonReport(left, cordon, fmt.Sprintf("node %s is cordoned %s; its sidecar has stopped meanwhile", id, cordon)), nil
	}
	if left.Presence.Reason == protocol.Overridden {
		return newCordonReport(left, cordon, fmt.Sprintf("node %s is cordoned %s; its gate stays open until the override ends: %s",
			id, cordon, protocol.EndsOverride(left.Presence.Warnings))), nil
	}
	if left.Presence.Reason != protocol.Cordoned {
		return newCordonReport(left, cordon, fmt.Sprintf("node %s is out of service %s: its gate was closed already (%s), and it does not lead", id, cordon, left.Presence.Reason)), nil
	}
	return newCordonReport(left, cordon, fmt.Sprintf("node %s is out of service %s: its gate is closed, and it does not lead", id, cordon)), nil
}

func (p program) uncordon(ctx context.Context, client reach.Etcd, id protocol.NodeID, timeout time.Duration) (cordonReport, error) {
	was, err := fleet.SetCordon(ctx, client.Client, id, fleet.CordonChange{})
	switch {
	case err != nil:
		return cordonReport{}, err
	case !was.Node.Cordon.On():
		return newCordonReport(was, protocol.Cordon{}, fmt.Sprintf("node %s was not cordoned", id)), nil
	case !was.Alive:
		return newCordonReport(was, protocol.Cordon{}, fmt.Sprintf("node %s is no longer cordoned; its sidecar is not alive", id)), nil
	}
	now, err := nodeAwaited{client, id, timeout}.until(ctx, func(r *protocol.Record) bool {
		return !r.Alive || r.Presence.Reason != protocol.Cordoned && r.Presence.Reason != protocol.NotRegistered
	})
	switch {
	case err != nil:
		return cordonReport{}, err
	case now.Presence.Reason == protocol.Overridden:
		return newCordonReport(now, protocol.Cordon{}, fmt.Sprintf("node %s is no longer cordoned; an override was in force, so its gate was open before: to end it, %s",
			id, protocol.EndsOverride(now.Presence.Warnings))), nil
	case now.Presence.Ready:
		return newCordonReport(now, protocol.Cordon{}, fmt.Sprintf("node %s is in service again: its gate is open", id)), nil
	default:
		return newCordonReport(now, protocol.Cordon{}, fmt.Sprintf("node %s is no longer cordoned; its gate is closed: %s", id, now.Presence.Reason)), nil
	}
}

// printCordon prints the result, if nothing failed.
func (p program) printCordon(r cordonReport, err error, form string) error {
	switch {
	case err != nil:
		return err
	case form == "json":
		return p.PrintJSON(r)
	}
	_, err = fmt.Fprintln(p.Stdout, r.Message)
	return err
}

// overWhenRead returns the report of a node that deleted this cordon at once, because it was over by its clock;
// empty: it did not.
func overWhenRead(r *protocol.Record, c protocol.Cordon) string {
	if r.Node.Cordon.On() || c.Until.IsZero() {
		return ""
	}
	for _, w := range r.Presence.Warnings {
		if w.Reason == warn.CordonOver && strings.Contains(w.Message, c.Since.UTC().Format(time.RFC3339)) {
			return w.Message
		}
	}
	return ""
}

// outOfService reports whether a node carried out its cordon, or does not run. Its gate may be open by an
// override, or closed for a reason that precedes the cordon.
func outOfService(r *protocol.Record) bool {
	switch r.Presence.Election {
	case protocol.Leading, protocol.Campaigning:
		return !r.Alive
	default:
	}
	switch r.Presence.Reason {
	case protocol.Cordoned, protocol.Overridden, protocol.Starting, protocol.Fenced, protocol.ServicesNotReady,
		protocol.OtherAPIServer:
		return true
	default:
		return !r.Alive
	}
}

// nodeAwaited is a node that must confirm a change of its record.
type nodeAwaited struct {
	client  reach.Etcd
	id      protocol.NodeID
	timeout time.Duration
}

// until returns the node's record when done accepts it.
func (n nodeAwaited) until(ctx context.Context, done func(*protocol.Record) bool) (protocol.Record, error) {
	limited, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	nodes, end := fleet.Follow(limited, n.client.Client)
	defer end()
	for {
		f, changed := nodes.Load()
		r, found := f.Record(n.id)
		switch {
		case f.Revision != 0 && !found:
			return r, fmt.Errorf("node %q: %w: it was removed meanwhile", n.id, fleet.ErrNoNode)
		case found && done(&r):
			return r, nil
		}
		if !event.Wait(limited, changed) {
			if ctx.Err() != nil {
				return r, ctx.Err()
			}
			return r, fmt.Errorf("%w (%s): the sidecar of node %s reports %s, and is %s in the election; see its log",
				console.ErrUnconfirmed, n.timeout, n.id,
				cmp.Or(string(r.Presence.Reason), "nothing"), cmp.Or(string(r.Presence.Election), "nothing"))
		}
	}
}
