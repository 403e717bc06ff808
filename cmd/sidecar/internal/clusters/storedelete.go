package clusters

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/protocol"
)

// deletionReport is the output of `store delete`. Every field is always present.
type deletionReport struct {
	Prefix  string       `json:"prefix"`
	Store   string       `json:"store"` // its ID; empty: the key is missing or corrupt
	Deleted bool         `json:"deleted"`
	Keys    []partReport `json:"keys"` // that were deleted, or would be
	Total   int64        `json:"total"`
	Alive   []string     `json:"alive"`
	// Keys below the prefix that are kept.
	Members  int64  `json:"memberKeysKept"`
	Others   int64  `json:"otherKeysKept"`
	OtherKey string `json:"otherKey"` // one of them; empty: there is none, or it was not found
}

type partReport struct {
	Key   string   `json:"key"` // without the prefix; a range ends with a slash
	Count int64    `json:"count"`
	Nodes []string `json:"nodes"`
}

func newDeletionReport(prefix string, c fleet.StoreContents) deletionReport {
	r := deletionReport{
		Prefix: prefix, Store: c.StoreID, Keys: []partReport{}, Total: c.Count(), Alive: protocol.NodeNames(c.Alive),
		Members: c.Members, Others: c.Others, OtherKey: c.Example,
	}
	for _, p := range c.Parts {
		r.Keys = append(r.Keys, partReport{Key: strings.TrimPrefix(p.Key, prefix), Count: p.Count, Nodes: protocol.NodeNames(p.Nodes)})
	}
	return r
}

func (p program) storeDeleteCommand() *cobra.Command {
	output := console.NewChoice("table", "json")
	deletion, confirmed := fleet.StoreDeletion{}, false
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "delete",
		Short: "Delete the keys of this store",
		Long: `Delete the keys of this store: what sidecars have written below --etcd-prefix in this
etcd. Without --yes, the command only shows what it would delete. Use it after a move to
another etcd, or when you no longer use Lockstep.

Stop all sidecars first. The command refuses while one of them is alive, because it
would write its keys again. A sidecar that was killed counts as alive until its lease
ends (--lease-ttl). The kube-apiservers and the objects stay as they are.

Other keys below the prefix are kept, such as those of a store with a longer prefix. If
the sidecars run this etcd themselves (--etcd=embedded), the keys of its members are
kept too. To end such a cluster, stop the sidecars and delete their data directories.`,
		Args: console.NoArgs,
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		d := deletion
		d.DryRun = !confirmed
		cluster, err := quorum.ReadCluster(ctx, client.Client)
		if err != nil && !errors.Is(err, quorum.ErrNoCluster) {
			return err
		}
		d.EtcdCluster = cluster.EtcdClusterID
		found, err := fleet.DeleteStore(ctx, client.Client, d)
		_, inUse := errors.AsType[*fleet.StoreInUseError](err)
		switch {
		case inUse:
			err = fmt.Errorf("%w; stop these sidecars first. One that was killed counts until its lease ends. To delete the keys all the same, add --force", err)
		case err != nil:
			return err
		}
		report := newDeletionReport(client.Prefix(), found)
		report.Deleted = confirmed && err == nil && report.Total > 0
		if output.Value == "json" {
			return errors.Join(p.PrintJSON(report), err)
		}
		p.printDeletion(report)
		if err == nil && !confirmed && report.Total > 0 {
			fmt.Fprintf(p.Stdout, "Nothing was deleted. To delete %s, type: sidecar store delete --yes%s%s\n", terminal.Count(report.Total, "key"),
				terminal.When(d.StatusOnly, " --status-only")+terminal.When(d.Force, " --force"), client.Flags)
		}
		return err
	})
	flags := cmd.Flags()
	flags.BoolVar(&confirmed, "yes", false, "Delete the keys. Without this, they are only shown.")
	flags.BoolVar(&deletion.Force, "force", false, "Delete the keys even if sidecars are alive, which write theirs again.")
	flags.BoolVar(&deletion.StatusOnly, "status-only", false, "Delete only the status. The next leader rebuilds it from the objects.")
	console.BindOutput(cmd, &output)
	return cmd
}

func (p program) printDeletion(r deletionReport) {
	if r.Total == 0 {
		fmt.Fprintf(p.Stdout, "There is nothing to delete below %s\n", r.Prefix)
	} else {
		fmt.Fprintf(p.Stdout, "Store %s, ID %s\n\n", r.Prefix, terminal.OrDash(r.Store))
		rows := [][]string{{"KEY", "COUNT", "NODES"}}
		for _, k := range r.Keys {
			rows = append(rows, []string{r.Prefix + k.Key, strconv.FormatInt(k.Count, 10), terminal.OrDash(strings.Join(k.Nodes, ", "))})
		}
		p.Printer().Rows(rows)
		fmt.Fprintln(p.Stdout)
	}
	if r.Deleted {
		fmt.Fprintf(p.Stdout, "%s deleted\n", terminal.Count(r.Total, "key"))
	}
	if r.Members > 0 {
		fmt.Fprintf(p.Stdout, "Kept: %s below %scluster/, which the members of this etcd need\n", terminal.Count(r.Members, "key"), r.Prefix)
	}
	if r.Others > 0 {
		fmt.Fprintf(p.Stdout, "Kept: %s below %s that %s not of this store%s\n", terminal.Count(r.Others, "key"), r.Prefix, terminal.Are(r.Others), terminal.Prefixed(", such as ", r.OtherKey))
	}
}
