package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
)

// awaitAddress waits until this machine has the address of this node: a machine may start the
// sidecar before its network.
func awaitAddress(_ context.Context, f *flow) error {
	address, err := nodeaddress.Find(f.cfg.Address)
	if err != nil {
		dir := datadir.Layout(f.cfg.DataDir)
		if m, none := dir.ReadMarker(); !errors.Is(none, datadir.ErrNoMarker) {
			err = fmt.Errorf("%w; %q was made with it; if it never comes back, %s", err, f.cfg.DataDir, dir.ReplaceNode(m))
		}
		return transient(fmt.Errorf("waiting for the address of this node: %w", err))
	}
	f.cfg.Address = address
	f.shared.reachedAt(address, f.cfg.clientURL())
	return nil
}
