package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// program is the outside world, with the methods of these commands.
type program struct{ console.Program }

// clusterCommand is sidecar cluster.
func (p program) clusterCommand() *cobra.Command {
	return console.ParentOf(&cobra.Command{
		Use:   "cluster",
		Short: "Show and change the members of an etcd that the sidecars run themselves",
		Long: `Show and change the members of an etcd that the sidecars run themselves
(--etcd=embedded). Run these commands on a node that is a member: they use its data
directory. With --etcd-servers and the other flags of etcd they work anywhere.`,
	}, p.membersCommand(), p.removeCommand(), p.tokenCommand(),
		p.snapshotCommand(), p.restoreCommand(), p.defragCommand(), p.rotateCommand())
}

// MemberReport is a member in the output of `cluster members`. Every field is always
// present.
type MemberReport struct {
	ID        string `json:"id"`
	Node      string `json:"node"` // empty: unknown
	Address   string `json:"address"`
	PeerURL   string `json:"peerURL"`
	ClientURL string `json:"clientURL"`
	JoinURL   string `json:"joinURL"`
	Role      string `json:"role"` // voter or learner
	Leader    bool   `json:"leader"`
	Leaving   bool   `json:"leaving"`
	Healthy   bool   `json:"healthy"`
	Problem   string `json:"problem"`
	DBSize    int64  `json:"dbSizeBytes"`
	Quota     int64  `json:"dbQuotaBytes"` // 0: unknown
	Full      bool   `json:"full"`         // etcd refuses writes
	Lag       uint64 `json:"lagEntries"`
	// CARotation is the node's progress in the replacement of the CA; missing: no CA is replaced.
	CARotation *MemberRotation `json:"caRotation,omitempty"`
}

func newMemberReport(v quorum.View) MemberReport {
	role := "voter"
	if v.Learner {
		role = "learner"
	}
	return MemberReport{
		ID: keyspace.MemberID(v.ID), Node: string(v.Node), Address: cmp.Or(v.Address, hostOf(v.PeerURL)),
		PeerURL: v.PeerURL, ClientURL: v.ClientURL, JoinURL: v.JoinURL,
		Role: role, Leader: v.Leader, Leaving: v.Leaving, Healthy: v.Healthy, Problem: v.Problem,
		DBSize: v.Status.DBSize, Quota: v.Status.Quota, Full: v.Status.Full, Lag: v.Lag,
	}
}

// hostOf is the address in a URL; any other text stays as it is.
func hostOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return text
}

func (p program) membersCommand() *cobra.Command {
	output := console.NewChoice("table", "json", "nftables")
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "members",
		Short: "List the members, with their health",
		Long: `List the members, with their health.

A voter counts for the majority. A learner receives the data and does not vote: it has
just joined. At the size in QUOTA, etcd refuses writes: sidecar cluster defrag makes space
before that. LAG is the number of entries of the log by which a member is behind the leader.
With --output=nftables it prints rules that close the ports of etcd to all others.

Without a majority the list is what the member that answers knows, and the exit code
is 1.`,
		Args: console.NoArgs,
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		views, err := quorum.List(ctx, client.Client)
		if err != nil && !errors.Is(err, quorum.ErrNoQuorum) {
			return err
		}
		if err != nil || !quorum.HasMajority(views) {
			err = fmt.Errorf("%w; %s", quorum.ErrNoQuorum, reach.NoMajority) // the list shows each member's answer
		}
		if slices.ContainsFunc(views, func(v quorum.View) bool { return v.Status.Full }) {
			fmt.Fprintf(p.Stderr, "The database of etcd is full, so it refuses writes; %s%s\n", cluster.FreeSpace, client.Flags)
		}
		rotates := activeRotation(ctx, client)
		if rotates != nil {
			fmt.Fprintln(p.Stderr, rotationText(*rotates))
		}
		return errors.Join(p.printMembers(views, rotates, output.Value), err)
	})
	console.BindOutput(cmd, &output)
	return cmd
}

// printMembers lists the members. rotates is nil if no CA is being replaced.
func (p program) printMembers(views []quorum.View, rotates *quorum.Rotation, form string) error {
	members := make([]MemberReport, 0, len(views))
	for _, v := range views {
		m := newMemberReport(v)
		m.CARotation = newMemberRotation(rotates, v.Node)
		members = append(members, m)
	}
	sorting.By(members, func(a, b MemberReport) int { return cmp.Compare(a.Node, b.Node) })
	if form == "nftables" {
		rules, err := nftablesRules(members)
		if err != nil {
			return err
		}
		fmt.Fprint(p.Stdout, rules)
		return nil
	}
	rows := [][]string{{"ID", "NODE", "ADDRESS", "ROLE", "LEADER", "HEALTH", "DB SIZE", "QUOTA", "LAG"}}
	for _, m := range members {
		health, size, quota, lag := "healthy", "-", "-", "-"
		if m.Healthy {
			size, quota, lag = terminal.Bytes(m.DBSize), terminal.Bytes(m.Quota), strconv.FormatUint(m.Lag, 10)
		} else {
			health = m.Problem
		}
		health += terminal.When(m.Leaving, " (being removed)")
		rows = append(rows, []string{m.ID, terminal.OrDash(m.Node), m.Address, m.Role,
			terminal.YesOrNo(m.Leader), health, size, quota, lag})
	}
	return p.PrintRows(form, members, rows)
}

// removeTimeout is longer than any of the waits of a removal.
const removeTimeout = time.Minute

func (p program) removeCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Remove a member, by its ID or its node ID",
		Long: `Remove a member, by its ID or its node ID, as sidecar cluster members shows them. If
it leads etcd, it hands over first.

The last voter is not removed, nor a member without which fewer than a majority of the
voters would answer, nor one whose sidecar is alive: its etcd may only be slow for some
seconds, and a member that was removed never serves again. If a sidecar was alive a moment
ago, the command waits until that is known. With --force, a sidecar that is alive stops
its etcd and exits.

To join again, the node needs an empty data directory and a new token. The node's
record stays: if the node is off for good, also type sidecar node remove.`,
		Args: console.OneArg("ID"),
	}
	cmd.Long += "\n\n" + strings.TrimSuffix(keepsAccess, "\n")
	cmd.Flags().BoolVar(&force, "force", false, "Also if the sidecar of that node is alive: the node is lost, until it joins again with an empty data directory.")
	return reach.WithEtcd(cmd, func(ctx context.Context, at reach.Etcd, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, removeTimeout)
		defer cancel()
		removed, err := quorum.Remove(ctx, at.Client, quorum.Removal{
			Name: args[0], Dial: at.Dial, Force: force, By: p.WhoTypes(),
			Progress: func(text string) { fmt.Fprintln(p.Stderr, text) },
		})
		if err != nil {
			return err
		}
		id := keyspace.MemberID(removed.ID)
		if removed.Node == "" {
			fmt.Fprintf(p.Stdout, "member %s removed\n%s", id, keepsAccess)
			return nil
		}
		fmt.Fprintf(p.Stdout, "member %s of node %s removed\n", id, removed.Node)
		fmt.Fprintf(p.Stdout, "If the node is off for good, remove its record too: sidecar node remove %s --confirm-stopped%s\n", removed.Node, at.Flags)
		fmt.Fprintf(p.Stdout, "To join again, it needs an empty data directory and a new token: sidecar cluster token create --node %s%s\n", removed.Node, at.Flags)
		fmt.Fprint(p.Stdout, keepsAccess)
		return nil
	})
}

// keepsAccess warns of the access that remains after the removal of a member and after the revocation of its
// token.
const keepsAccess = `The data directory of a node that has joined has a certificate, and, once it has voted,
the key of the cluster's CA. A user who has a copy of it still reads and writes everything in etcd. If
you do not trust that node, replace the CA: sidecar cluster rotate-ca (docs/clusters.md#replace-the-ca)
`
