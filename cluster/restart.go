package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/cluster/datadir"
)

// restartSteps start the member that this directory has.
func restartSteps() []step {
	return []step{
		{"directory", openDirectory},
	}
}

// lockTimeout is how long a directory may be in use by another process at the start:
// the member of a sidecar that was killed stops by itself, which takes a moment.
const lockTimeout = 15 * time.Second

// openDirectory locks the data directory, reads the marker and compares the
// directory with it. It waits for a member of this directory that is still stopping.
func openDirectory(ctx context.Context, f *flow) error {
	if f.dir == nil {
		dir, err := datadir.Open(f.cfg.DataDir)
		if locked, is := errors.AsType[*datadir.LockedError](err); is {
			return f.awaitLock(locked)
		}
		if err != nil {
			return err
		}
		f.dir = dir
	}
	marker, err := f.dir.ReadMarker()
	if errors.Is(err, datadir.ErrNoMarker) {
		return nil
	}
	if err != nil {
		return err
	}
	f.marker = marker
	return f.dir.Check(marker, datadir.Expected{
		Node: f.cfg.Node, Address: f.cfg.Address, PeerPort: f.cfg.PeerPort, ClientPort: f.cfg.ClientPort,
	})
}
