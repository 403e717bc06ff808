package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/runflags"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/role"
	"github.com/lockstep-dev/lockstep/internal/trusted"
)

// Longer than a store of the largest size needs on a slow disk.
const (
	snapshotTimeout = 10 * time.Minute
	restoreTimeout  = 10 * time.Minute
)

func (p program) snapshotCommand() *cobra.Command {
	return reach.WithEtcd(&cobra.Command{
		Use:   "snapshot FILE",
		Short: "Save the whole etcd into a file",
		Long: `Save the whole etcd into a file, which must not exist. Only this user can read it: it
has all that etcd has. sidecar cluster restore FILE makes a cluster of it, and so do
etcd's own tools.

On a member that runs, the command also works without a majority of the members. Then
the newest writes may be missing in the file.`,
		Args: console.OneArg("FILE"),
	}, func(ctx context.Context, client reach.Etcd, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
		defer cancel()
		saved, err := backup.Save(ctx, client.Client, args[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "%s saved: %s, %s, revision %d\n", args[0], terminal.Bytes(saved.Bytes), terminal.Count(saved.Keys, "key"), saved.Revision)
		if saved.Stale {
			fmt.Fprintf(p.Stdout, "The cluster has no majority of its members now. The file has what this member has: the newest writes may be missing.\n")
		}
		return nil
	})
}

func (p program) restoreCommand() *cobra.Command {
	opts, confirmed, latest := runflags.Default(), false, false
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a cluster of one member, this node, from a file",
		Long: `Make a cluster of one member, this node, from a file that sidecar cluster snapshot has
saved. This is for a cluster that has lost the majority of its members for good. With a
majority, remove and replace members instead: nothing is lost then.

What was written after the snapshot is lost. The status is deleted too, since it is older
than the objects: the leader rebuilds it from them. Stop the sidecars on all nodes first, and
confirm that with --confirm-stopped: members of the old cluster would go on beside the
new one. Then start the sidecar here, delete the data directories of the other nodes, and
let them join with new tokens.

The data directory must be that of a node that was a member. Its old data is kept beside
the new one. If the machine has another address since, add --node-address. If all members are
lost, the directory may be missing or empty: add --node-id and --node-address, and the cluster
gets a new CA. The records of nodes stay: remove those of nodes that are off for good with
sidecar node remove.

With --latest in place of FILE, the file is the newest snapshot that this node has saved by itself
(--snapshot-every of sidecar run) and that is not damaged. Another node may have a newer one.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if latest {
				if len(args) > 0 {
					return console.Usagef("either FILE or --latest")
				}
				return nil
			}
			return console.OneArg("FILE")(cmd, args)
		},
	}
	cmd.Flags().StringVar(&opts.DataDir, "data-dir", opts.DataDir, "The data `directory` of this node.")
	cmd.Flags().StringVar(&opts.NodeAddress, "node-address", opts.NodeAddress, "The `IP` address of this node from now on. If empty, the present one.")
	cmd.Flags().StringVar(&opts.NodeID, "node-id", opts.NodeID, "The `ID` of this node, for an empty data directory.")
	cmd.Flags().IntVar(&opts.Embedded.PeerPort, "peer-port", opts.Embedded.PeerPort, "The `port` for other etcd members, for an empty data directory.")
	cmd.Flags().IntVar(&opts.Embedded.ClientPort, "client-port", opts.Embedded.ClientPort, "The `port` for sidecars, for an empty data directory.")
	cmd.Flags().IntVar(&opts.Embedded.JoinPort, "join-port", opts.Embedded.JoinPort, "The `port` for nodes that join, for an empty data directory.")
	cmd.Flags().StringVar(&opts.EtcdPrefix, "etcd-prefix", opts.EtcdPrefix, "The `prefix` of all keys in etcd.")
	cmd.Flags().BoolVar(&latest, "latest", false, "Restore the newest snapshot that this node has saved by itself.")
	cmd.Flags().StringVar(&opts.Embedded.SnapshotDir, "snapshot-dir", opts.Embedded.SnapshotDir, "The `directory` of these snapshots. If empty, snapshots in --data-dir.")
	cmd.Flags().BoolVar(&confirmed, "confirm-stopped", false, "Confirm that the sidecars of all nodes are stopped.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !confirmed {
			return console.Usagef("stop the sidecars on all nodes, then add --confirm-stopped; see sidecar cluster restore --help")
		}
		if !latest {
			return p.restore(cmd.Context(), opts, args[0])
		}
		file, err := p.latestSnapshot(cmp.Or(opts.Embedded.SnapshotDir, datadir.Layout(opts.DataDir).Snapshots()))
		if err != nil {
			return err
		}
		return p.restore(cmd.Context(), opts, file)
	}
	return cmd
}

// latestSnapshot returns the newest snapshot that a node saved by itself. It reports the damaged ones that it
// skips.
func (p program) latestSnapshot(dir string) (string, error) {
	newest, damaged, err := backup.Latest(dir, p.Now())
	if err != nil {
		return "", err
	}
	for _, problem := range damaged {
		fmt.Fprintf(p.Stderr, "not used: %v\n", problem)
	}
	fmt.Fprintf(p.Stderr, "The newest snapshot here was saved at %s, %s ago.\n", newest.Time.Format(time.RFC3339), p.Now().Sub(newest.Time).Round(time.Second))
	return newest.File, nil
}

func (p program) restore(ctx context.Context, opts runflags.Flags, file string) error {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	var first *backup.First
	if opts.NodeID != "" {
		problem, is := errors.AsType[*lockstep.OptionError](lockstep.Options{NodeID: opts.NodeID}.Validate())
		if is && problem.Field == "NodeID" {
			return console.Usagef("--node-id %s", problem.Problem)
		}
		e := opts.Embedded
		first = &backup.First{Node: opts.NodeID, PeerPort: e.PeerPort, ClientPort: e.ClientPort, JoinPort: e.JoinPort}
	}
	if problem := trusted.Problem(file); problem != "" {
		fmt.Fprintf(p.Stderr, "Others can change the snapshot, and with it everything in the cluster: %s\n", problem)
	}
	fmt.Fprintf(p.Stderr, "Restoring %s in %s. This takes some seconds, and minutes with a large database.\n", file, opts.DataDir)
	restored, err := backup.Restore(ctx, backup.Config{
		DataDir: opts.DataDir, Address: opts.NodeAddress, First: first, File: file, Prefix: opts.EtcdPrefix,
		Command: []string{self, lockstep.MemberCommand, datadir.Layout(opts.DataDir).Program()}, GiveRole: role.GiveConsensus,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "%s restored: cluster %s with one member, %s, revision %d before\n", file, restored.Cluster, terminal.Count(restored.Keys, "key"), restored.Revision)
	if restored.Replaced != "" {
		fmt.Fprintf(p.Stdout, "The data before is in %s\n", restored.Replaced)
	}
	fmt.Fprintf(p.Stdout, "Start the sidecar here. On each other node delete the data directory, then join with a token of its own: sidecar cluster token create%s\n",
		etcd.CommandFlags(etcd.Config{Prefix: opts.EtcdPrefix}, opts.DataDir))
	return nil
}
