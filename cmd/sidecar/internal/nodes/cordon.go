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
func (p program) cordonCommand() *cobra.Command {
	var f cordonFlags
	cmd := p.untilConfirmed(&cobra.Command{
		Use:   "cordon ID",
		Short: "Take a node out of service: close its gate, and let another node lead",
		Long: `Take a node out of service, for example before its etcd is restarted. The gate of the
node closes, so load balancers send no new connections to its kube-apiserver, and
another node leads. The command returns when both is done. sidecar uncordon ends it.

The node stays registered: leaders wait for it as before. The last node that is in
service is refused: without it, no kube-apiserver would serve.

Exit codes: 0 the node is out of service, 1 nothing was changed, 2 wrong usage, 3 the
node did not confirm before --timeout; the cordon stays.`,
	}, &f, p.cordon)
	flags := cmd.Flags()
	flags.DurationVar(&f.duration, "for", 0, "After this time, the node's sidecar ends the cordon, by its clock. 0: only sidecar uncordon does.")
	flags.StringVar(&f.message, "message", "", "Why, for the people who read the status.")
	flags.BoolVar(&f.force, "force", false, "Also if no other node is in service: then no kube-apiserver is.")
	return cmd
}

// uncordonCommand is sidecar uncordon.
func (p program) uncordonCommand() *cobra.Command {
	return p.untilConfirmed(&cobra.Command{
		Use:   "uncordon ID",
		Short: "Return a node to service",
		Long: `Return a node to service. Its gate opens if its release fits the objects. The
command returns when the gate has been decided.

Exit codes: 0 the cordon is removed, 1 nothing was changed, 2 wrong usage, 3 the node
did not confirm before --timeout; the cordon is removed all the same.`,
	}, &cordonFlags{}, p.uncordon)
}

// untilConfirmed completes a command that changes one node, and prints what the node made of it.
func (p program) untilConfirmed(
	cmd *cobra.Command, f *cordonFlags, change func(context.Context, reach.Etcd, protocol.NodeID, cordonFlags) (cordonReport, error),
) *cobra.Command {
	output := console.NewChoice("text", "json")
	cmd.Args = console.OneArg("ID")
	cmd.PreRunE = func(_ *cobra.Command, args []string) error { return errors.Join(checkNodeID(args[0]), f.validate()) }
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultCordonTimeout, "Maximum time to wait until the node confirms.")
	console.BindOutput(cmd, &output)
	return reach.WithEtcd(cmd, func(ctx context.Context, client reach.Etcd, args []string) error {
		r, err := change(ctx, client, protocol.NodeID(args[0]), *f)
		switch {
		case err != nil:
			return err
		case output.Value == "json":
			return p.PrintJSON(r)
		}
		_, err = fmt.Fprintln(p.Stdout, r.Message)
		return err
	})
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

func (p program) cordon(ctx context.Context, client reach.Etcd, id protocol.NodeID, f cordonFlags) (cordonReport, error) {
	cordon := protocol.Cordon{Since: p.Now().UTC(), Message: terminal.Clean(f.message), By: p.WhoTypes()}
	if f.duration > 0 {
		cordon.Until = cordon.Since.Add(f.duration)
	}
	node, err := fleet.SetCordon(ctx, client.Client, id, fleet.CordonChange{Cordon: cordon, Force: f.force})
	text := fmt.Sprintf("node %s is cordoned %s; ", id, cordon)
	switch {
	case errors.Is(err, fleet.ErrLastInService):
		return cordonReport{}, fmt.Errorf("%w; return another node to service first, or add --force", err)
	case err != nil:
		return cordonReport{}, err
	case !node.Node.Roles.Controller:
		text += "it does not have the role " + protocol.RoleController + ", so its gate was closed already"
		return newCordonReport(node, cordon, text), nil
	case !node.Alive:
		return newCordonReport(node, cordon, text+"its sidecar is not alive: if it is only cut off from etcd, its gate may be open still"), nil
	}
	node, err = nodeAwaited{client, id, f.timeout}.until(ctx, func(r *protocol.Record) bool {
		return outOfService(r) || overWhenRead(r, cordon) != ""
	})
	if err != nil {
		return cordonReport{}, err
	}
	switch problem := overWhenRead(&node, cordon); {
	case problem != "":
		return cordonReport{}, fmt.Errorf("node %s: %s", id, problem)
	case !node.Alive:
		text += "its sidecar has stopped meanwhile"
	case node.Presence.Reason == protocol.Overridden:
		text += "its gate stays open until the override ends: " + protocol.EndsOverride(node.Presence.Warnings)
	case node.Presence.Reason != protocol.Cordoned:
		text = fmt.Sprintf("node %s is out of service %s: its gate was closed already (%s), and it does not lead", id, cordon, node.Presence.Reason)
	default:
		text = fmt.Sprintf("node %s is out of service %s: its gate is closed, and it does not lead", id, cordon)
	}
	return newCordonReport(node, cordon, text), nil
}

func (program) uncordon(ctx context.Context, client reach.Etcd, id protocol.NodeID, f cordonFlags) (cordonReport, error) {
	node, err := fleet.SetCordon(ctx, client.Client, id, fleet.CordonChange{})
	text := fmt.Sprintf("node %s is no longer cordoned; ", id)
	switch {
	case err != nil:
		return cordonReport{}, err
	case !node.Node.Cordon.On():
		return newCordonReport(node, protocol.Cordon{}, fmt.Sprintf("node %s was not cordoned", id)), nil
	case !node.Alive:
		return newCordonReport(node, protocol.Cordon{}, text+"its sidecar is not alive"), nil
	}
	node, err = nodeAwaited{client, id, f.timeout}.until(ctx, func(r *protocol.Record) bool {
		return !r.Alive || r.Presence.Reason != protocol.Cordoned && r.Presence.Reason != protocol.NotRegistered
	})
	switch {
	case err != nil:
		return cordonReport{}, err
	case node.Presence.Reason == protocol.Overridden:
		text += "an override was in force, so its gate was open before: to end it, " + protocol.EndsOverride(node.Presence.Warnings)
	case node.Presence.Ready:
		text = fmt.Sprintf("node %s is in service again: its gate is open", id)
	default:
		text += "its gate is closed: " + string(node.Presence.Reason)
	}
	return newCordonReport(node, protocol.Cordon{}, text), nil
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
