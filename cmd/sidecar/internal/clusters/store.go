package clusters

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/kubeaccess"
)

// storeCommand is sidecar store.
func (p program) storeCommand() *cobra.Command {
	return console.ParentOf(&cobra.Command{
		Use:   "store",
		Short: "Show, adopt and delete a store: the keys in etcd",
		Long: `Show, adopt and delete a store: the keys below --etcd-prefix in this etcd, which have
an ID. The objects in the API belong to the store whose ID they have, on the ConfigMap
lockstep in kube-system. A leader of another store does not change them.

These commands connect to etcd directly: no sidecar has to run, unless the sidecars run
etcd themselves.`,
	}, p.storeShowCommand(), p.storeAdoptCommand(), p.storeDeleteCommand())
}

// storeReport is the output of `store show`. Every field is always present.
type storeReport struct {
	Prefix  string `json:"prefix"`
	Store   string `json:"store"`   // empty: the key is missing or corrupt
	Status  bool   `json:"status"`  // the store contains a status
	Objects string `json:"objects"` // the ID in the objects' annotations; empty: none, or not read
}

func (p program) storeShowCommand() *cobra.Command {
	output := console.NewChoice("table", "json")
	kubeconfig := ""
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "show",
		Short: "Show the ID of this store, and that of the objects in the API",
		Args:  console.NoArgs,
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		store, err := fleet.ReadStore(ctx, client.Client)
		if err != nil {
			return err
		}
		report := storeReport{Prefix: client.Prefix(), Store: store.Key.ID, Status: store.Status}
		if kubeconfig != "" {
			if report.Objects, err = kubeaccess.StoreOfObjects(ctx, kubeconfig); err != nil {
				return err
			}
		}
		return p.PrintRows(output.Value, report, [][]string{
			{"PREFIX", "STORE", "STATUS", "OBJECTS"},
			{report.Prefix, terminal.OrDash(report.Store), terminal.YesOrNo(report.Status), terminal.OrDash(report.Objects)},
		})
	})
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", kubeconfig, "Kubeconfig `file` for any kube-apiserver of the cluster. If empty, the ID of the objects is not read.")
	console.BindOutput(cmd, &output)
	return cmd
}

// deleteStatus is the command that deletes the status. An etcd that the sidecars run needs them, so
// they keep running.
func deleteStatus(c reach.Etcd) string {
	if strings.Contains(c.Flags, " --data-dir=") {
		return "type sidecar store delete --status-only --force --yes"
	}
	return "stop its sidecars, type sidecar store delete --status-only --yes"
}

func (p program) storeAdoptCommand() *cobra.Command {
	kubeconfig, id := "", ""
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "adopt",
		Short: "Let this store take over the objects of another store",
		Long: `Let this store take over the objects of another store: give it the ID that the
objects have. Use it after the etcd of the other store was lost for good, or to move
to another etcd or another --etcd-prefix.

First stop all sidecars of the other store. Two stores with one ID fight for the
objects, and their gates do not protect anything. An empty store looks the same
whether the other one was lost or --etcd-prefix has a typing error: so check
--etcd-servers and --etcd-prefix before.

A store that has a status keeps its ID: its leader governs objects already.`,
		Args:    console.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return checkAdoption(kubeconfig, id) },
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		adopted := id
		if id == "" {
			var err error
			switch adopted, err = kubeaccess.StoreOfObjects(ctx, kubeconfig); {
			case err != nil:
				return err
			case adopted == "":
				return errors.New("the objects have no store ID: the leader of this store takes them over by itself")
			}
		}
		err := fleet.AdoptStoreID(ctx, client.Client, adopted)
		switch {
		case errors.Is(err, fleet.ErrGoverned):
			return fmt.Errorf("%w; if this store is to take over the objects all the same, %s%s, and try again: the leader rebuilds the status", err, deleteStatus(client), client.Flags)
		case err != nil:
			return err
		}
		fmt.Fprintf(p.Stdout, "store %s has adopted the ID %s\n", client.Prefix(), adopted)
		return nil
	})
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", kubeconfig, "Kubeconfig `file` for any kube-apiserver of the cluster, to read the ID from the objects.")
	cmd.Flags().StringVar(&id, "id", id, "The store `ID` to adopt, in place of the objects' one.")
	return cmd
}

// checkAdoption returns an error that names the flag.
func checkAdoption(kubeconfig, id string) error {
	switch {
	case (kubeconfig == "") == (id == ""):
		return console.Usagef("set either --kubeconfig, to read the ID from the objects, or --id; see sidecar store adopt --help")
	case id != "" && !fleet.ValidStoreID(id):
		return console.Usagef("--id: %q: must be 32 hexadecimal digits in lower case, like the value of the annotation lockstep.dev/store", id)
	}
	return nil
}
