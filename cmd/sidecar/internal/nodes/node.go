package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/table"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// program is the outside world, with the methods of these commands.
type program struct{ console.Program }

// nodeCommand is sidecar node.
func (p program) nodeCommand() *cobra.Command {
	return console.ParentOf(&cobra.Command{
		Use:   "node",
		Short: "List, remove and change node records in etcd",
		Long: `List, remove and change node records in etcd. These commands connect to etcd
directly: no sidecar has to run, unless the sidecars run etcd themselves.`,
	}, p.nodeListCommand(), p.nodeRemoveCommand(), p.nodeSetRolesCommand())
}

func (p program) nodeListCommand() *cobra.Command {
	output := console.NewChoice("table", "wide", "json", "yaml")
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "list",
		Short: "List the node records, and which nodes are alive",
		Args:  console.NoArgs,
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		f, err := fleet.List(ctx, client.Client)
		if err != nil {
			return err
		}
		return p.printNodes(f, client.Flags, output.Value)
	})
	console.BindOutput(cmd, &output)
	return cmd
}

func (p program) printNodes(f protocol.Fleet, flags, form string) error {
	nodes := make([]report.Record, 0, len(f.Records))
	for _, r := range f.Records {
		n := httpapi.NewRecord(r)
		n.Problem = httpapi.Pasteable(n.Problem, flags)
		nodes = append(nodes, n)
	}
	if form == "yaml" {
		printed, err := yaml.Marshal(nodes)
		if err != nil {
			return fmt.Errorf("print nodes: %w", err)
		}
		_, err = p.Stdout.Write(printed)
		return err
	}
	return p.PrintRows(form, nodes, table.Records(nodes, form == "wide"))
}

func (p program) nodeRemoveCommand() *cobra.Command {
	confirmed := false
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "remove ID",
		Short: "Remove the record of a node that has stopped for good",
		Long: `Remove the record of a node that has stopped for good. The leader no longer waits
for that node.

If the sidecars run etcd themselves, remove the node's member first, with sidecar cluster
remove: it counts for the majority until then.

The record is not removed while the node's sidecar is alive. A sidecar that is not
alive does not prove that the node is down: the node may only be disconnected from
etcd, and its kube-apiserver may still serve. If it serves objects of a release
that it is not compatible with, they can be damaged. Make sure that the node is
off, and confirm it with --confirm-stopped.`,
		Args: console.OneArg("ID"),
		// The ID may be of any form: a key that holds no record can be deleted too.
		PreRunE: func(_ *cobra.Command, args []string) error {
			if !confirmed {
				return console.Usagef("make sure that node %q is off, with its kube-apiserver, then add --confirm-stopped; see sidecar node remove --help", args[0])
			}
			return nil
		},
	}, func(ctx context.Context, client reach.Etcd, args []string) error {
		if err := fleet.Remove(ctx, client.Client, protocol.NodeID(args[0])); err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "node %s removed\n", args[0])
		members, err := quorum.ReadParticipants(ctx, client.Client)
		if err == nil && members.Members[protocol.NodeID(args[0])] { // otherwise the node is removed, with nothing to add
			fmt.Fprintf(p.Stdout, "It is still a member of etcd, and counts for the majority. To remove that too: sidecar cluster remove %s%s\n", args[0], client.Flags)
		}
		return nil
	})
	cmd.Flags().BoolVar(&confirmed, "confirm-stopped", false, "Confirm that the node is off, with its kube-apiserver.")
	return cmd
}

// RoleNone is the word for no roles at all: a missing word must not take away all
// roles.
const RoleNone = "none"

func (p program) nodeSetRolesCommand() *cobra.Command {
	var wanted roleArgs
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "set-roles ID [ROLE[,ROLE...]] [--add ROLE] [--remove ROLE]",
		Short: "Change the roles of a node: " + strings.Join(protocol.RoleNames(), ", ") + ", or " + RoleNone,
		Long: `Change the roles of a node: ` + strings.Join(protocol.RoleNames(), ", ") + `, or
` + RoleNone + `. A list replaces all roles, --add and --remove keep the others. Roles of a newer
Lockstep, which this program does not know, stay.

When the controller role is taken away from a node that is alive, its sidecar closes
the gate, and the leader waits for that. A node that is not alive may only be
disconnected from etcd, and its kube-apiserver may still serve: the leader would wait
until the sidecar reaches etcd again. If the node is off, confirm it with
--confirm-stopped; the leader then no longer waits for it. The role is not taken from
the last node that is in service, unless --force is added.

With --etcd=embedded, a node that gets the role ` + protocol.RoleConsensus + ` becomes a member of
etcd, and one that loses it leaves, without a restart. The role is not taken from the
last voter, nor from a member without which fewer than a majority would answer, nor,
unless --force is added, if no voter may fail after that: from one of three or two.`,
		Args:    cobra.ArbitraryArgs,
		PreRunE: func(_ *cobra.Command, args []string) error { _, err := wanted.edit(args); return err },
	}, func(ctx context.Context, client reach.Etcd, args []string) error {
		edit, err := wanted.edit(args)
		if err != nil {
			return err
		}
		id := protocol.NodeID(args[0])
		var was, now protocol.Roles
		err = fleet.SetRoles(ctx, client.Client, id, fleet.RoleChange{
			Stopped: wanted.confirmed, Force: wanted.force,
			Edit:  func(has protocol.Roles) protocol.Roles { was, now = has, edit(has); return now },
			Leave: quorum.MayLose(client.Client, quorum.Loss{Node: id, Force: wanted.force}),
		})
		switch {
		case errors.Is(err, fleet.ErrNotAlive):
			return fmt.Errorf("%w: make sure that it is off, with its kube-apiserver, then add --confirm-stopped", err)
		case errors.Is(err, fleet.ErrLastInService):
			return fmt.Errorf("%w; without the role %s its gate closes, and its services stop; return another node to service first, or add --force",
				err, protocol.RoleController)
		case err != nil:
			return err
		}
		p.printRoles(id, was, now)
		if was.Controller && !now.Controller {
			p.warnOfNoController(ctx, client, id)
		}
		if now.Consensus && !was.Consensus {
			p.warnOfNoMember(ctx, client)
		}
		return nil
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&wanted.add, "add", nil, "A `ROLE` to give to the node. It keeps the others.")
	flags.StringSliceVar(&wanted.remove, "remove", nil, "A `ROLE` to take from the node. It keeps the others.")
	flags.BoolVar(&wanted.force, "force", false, "Also if no other node is in service, or if no voter of etcd may fail after that.")
	flags.BoolVar(&wanted.confirmed, "confirm-stopped", false, "Confirm that the node is off, with its kube-apiserver, to take the controller role from it.")
	return cmd
}

func (p program) printRoles(id protocol.NodeID, was, now protocol.Roles) {
	verb := "now"
	if was == now {
		verb = "already"
	}
	fmt.Fprintf(p.Stdout, "node %s %s has the roles: %s\n", id, verb, cmp.Or(strings.Join(now.Names(), ", "), RoleNone))
}

// warnOfNoController explains the effect if the last node lost the controller role.
func (p program) warnOfNoController(ctx context.Context, client reach.Etcd, id protocol.NodeID) {
	f, err := fleet.List(ctx, client.Client)
	if err != nil || slices.ContainsFunc(f.Records, func(r *protocol.Record) bool { return r.Node.Roles.Controller }) {
		return // the change itself succeeded
	}
	fmt.Fprintln(p.Stderr, httpapi.Pasteable(fmt.Sprintf("warning: no node has the role %[1]s now: no gate is open, no node applies the bundle, "+
		"and the services for that role stop; to give it back: sidecar node set-roles %[2]s --add %[1]s", protocol.RoleController, id), client.Flags))
}

// warnOfNoMember warns that a role is without effect where the sidecars run no etcd.
func (p program) warnOfNoMember(ctx context.Context, client reach.Etcd) {
	if _, err := quorum.ReadCluster(ctx, client.Client); errors.Is(err, quorum.ErrNoCluster) {
		fmt.Fprintf(p.Stderr, "warning: the role %s starts no member of etcd here: %v\n", protocol.RoleConsensus, err)
	}
}

// roleArgs are the roles that a user typed, and the flags about them.
type roleArgs struct {
	add, remove []string
	confirmed   bool
	force       bool
}

// edit returns the change of a node's roles that the arguments describe, or an error that names the flag or the
// argument.
func (a roleArgs) edit(args []string) (func(protocol.Roles) protocol.Roles, error) {
	changes := len(a.add)+len(a.remove) > 0
	switch {
	case len(args) < 2 && !changes:
		return nil, console.Usagef("expected a node ID and its roles, like: sidecar node set-roles a %s, or: sidecar node set-roles a --add %s",
			protocol.RoleController, protocol.RoleController)
	case len(args) != 1 && changes:
		return nil, console.Usagef("expected one node ID with --add or --remove, and no list of roles")
	case checkNodeID(args[0]) != nil:
		return nil, checkNodeID(args[0])
	case !changes:
		roles, err := parseRoles(strings.Split(strings.Join(args[1:], ","), ","))
		return func(protocol.Roles) protocol.Roles { return roles }, err
	}
	add, err := protocol.ParseRoles(a.add)
	if err != nil {
		return nil, console.Usagef("--add: %w", err)
	}
	remove, err := protocol.ParseRoles(a.remove)
	if err != nil {
		return nil, console.Usagef("--remove: %w", err)
	}
	for _, name := range add.Names() {
		if slices.Contains(remove.Names(), name) {
			return nil, console.Usagef("--add and --remove both have %s", name)
		}
	}
	return func(has protocol.Roles) protocol.Roles { return has.With(add).Without(remove) }, nil
}

func parseRoles(names []string) (protocol.Roles, error) {
	if slices.Equal(names, []string{RoleNone}) {
		return protocol.Roles{}, nil
	}
	roles, err := protocol.ParseRoles(names)
	if err != nil {
		return roles, console.Usagef("%w, or %s alone", err, RoleNone)
	}
	return roles, nil
}

// checkNodeID rejects a text that cannot be the ID of a node.
func checkNodeID(id string) error {
	if record.IsNodeID(id) {
		return nil
	}
	return console.Usagef("%.100q is not a node ID, which is a DNS subdomain such as cp-1; sidecar node list shows them", id)
}
