package clusters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// defragTimeout is longer than all members of a large cluster need on slow disks.
const defragTimeout = 30 * time.Minute

// defragReport is a member in the output of `cluster defrag`.
type defragReport struct {
	ID      string `json:"id"`
	Node    string `json:"node"` // empty: unknown
	Before  int64  `json:"beforeBytes"`
	After   int64  `json:"afterBytes"`
	LeftOut bool   `json:"leftOut"` // it did not answer
}

func (p program) defragCommand() *cobra.Command {
	output := console.NewChoice("text", "json")
	var d quorum.Defragmentation
	cmd := &cobra.Command{
		Use:   "defrag",
		Short: "Make space in the databases of all members, and end the alarm of a full one",
		Long: `Make space in the databases of all members, and end the alarm of a full one: etcd
refuses writes until then.

The command drops all old revisions, so that clients which watch from one of them list
again. Then each member writes its database again, one after another, the leader last. A
member answers nothing meanwhile: that takes seconds for each GiB, and needs as much free
space on its disk as its data has. With --data-dir, that is checked for the member there.

It writes nothing into etcd, so it works while etcd is full. If the data itself needs the
space, delete objects first: those are writes that etcd accepts also then.

The command needs all members. With --force, it leaves out those that do not answer: type
it again when they are back.`,
		Args: console.NoArgs,
	}
	cmd = reach.WithEtcd(cmd, func(ctx context.Context, at reach.Etcd, _ []string) error {
		ctx, cancel := context.WithTimeout(ctx, defragTimeout)
		defer cancel()
		if _, err := quorum.ReadCluster(ctx, at.Client); err != nil {
			return err
		}
		d.Free = func(v quorum.View) (int64, bool) { return freeOf(at.DataDir, v) }
		d.Progress = func(text string) { fmt.Fprintln(p.Stderr, text) }
		done, err := quorum.Defragment(ctx, at.Client, d)
		if errors.Is(err, quorum.ErrNoQuorum) {
			err = fmt.Errorf("%w; %s", err, reach.NoMajority)
		}
		return errors.Join(p.printDefragmented(done, output.Value), err)
	})
	cmd.Flags().BoolVar(&d.Force, "force", false, "Leave out members that do not answer.")
	console.BindOutput(cmd, &output)
	return cmd
}

// freeOf returns the free space on the disk of a member, if its data directory is on this machine.
func freeOf(dataDir string, v quorum.View) (free int64, known bool) {
	dir := datadir.Layout(dataDir)
	if m, err := dir.ReadMarker(); dataDir == "" || err != nil || m.MemberID != keyspace.MemberID(v.ID) {
		return 0, false
	}
	free, err := dir.FreeSpace()
	return free, err == nil
}

func (p program) printDefragmented(all []quorum.Defragmented, form string) error {
	reports := make([]defragReport, 0, len(all))
	for _, d := range all {
		reports = append(reports, defragReport{
			ID: keyspace.MemberID(d.ID), Node: string(d.Node), Before: d.Status.DBSize, After: d.After, LeftOut: d.LeftOut,
		})
	}
	if form == "json" {
		return p.PrintJSON(reports)
	}
	for _, r := range reports {
		result := fmt.Sprintf("%s before, %s now", terminal.Bytes(r.Before), terminal.Bytes(r.After))
		if r.LeftOut {
			result = "left out, because it does not answer; type the command again when it does"
		}
		fmt.Fprintf(p.Stdout, "member %s of node %s: %s\n", r.ID, r.Node, result)
	}
	return nil
}
