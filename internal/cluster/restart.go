package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// restartSteps start the member of this directory. They wait for a majority
// without a limit: a whole cluster that was stopped comes back by itself.
func restartSteps() []step {
	return []step{
		{"directory", openMemberDirectory},
		{"certificate", renewCertificate},
		{"member", startOldMember},
		{"ready", awaitMember},
		{"identity", checkIdentity},
		{"record", writeRecord},
		{"announce", announce},
	}
}

// lockTimeout is how long a directory may be in use by another process at the start:
// the member of a sidecar that was killed stops by itself, which takes a moment.
const lockTimeout = 15 * time.Second

// openMemberDirectory requires a directory that once belonged to a member.
func openMemberDirectory(ctx context.Context, f *flow) error {
	if err := openDirectory(ctx, f); err != nil {
		return err
	}
	if f.marker.Intent == datadir.Restore && f.marker.Phase == datadir.Begun {
		return &datadir.RefusedError{
			Path: f.dir.Path(), Problem: "is being restored from a snapshot, and that was interrupted",
			Remedy: "type sidecar cluster restore again",
		}
	}
	if !f.marker.Phase.InCluster() {
		return errors.New("the data directory has changed while it was opened; start again")
	}
	if f.cfg.Join != "" && f.marker.Intent == datadir.Create {
		f.log.Warn("--join is ignored: this directory has a cluster that was created here; to join another one, stop, delete the directory and start again",
			"dir", f.dir.Path(), "cluster", f.marker.Cluster)
	}
	if f.marker.Phase == datadir.Leaving && len(f.directory.List().Get()) > 0 {
		f.shared.useOthers() // its own may be a learner, which refuses requests
	}
	return nil
}

// openDirectory locks the data directory, reads the marker and compares the
// directory with it. It waits for a member of this directory that is still stopping.
func openDirectory(_ context.Context, f *flow) error {
	if f.dir == nil {
		dir, opened, err := f.open(f.cfg.DataDir)
		if locked, is := errors.AsType[*datadir.LockedError](err); is {
			return f.awaitLock(locked)
		}
		if err != nil {
			return err
		}
		f.dir, f.disk = dir, opened
	}
	marker, err := f.dir.ReadMarker()
	if errors.Is(err, datadir.ErrNoMarker) {
		return nil
	}
	if err != nil {
		return err
	}
	f.adopt(marker)
	return f.dir.Check(marker, datadir.Expected{
		Node: f.cfg.Node, Address: f.cfg.Address, PeerPort: f.cfg.PeerPort, ClientPort: f.cfg.ClientPort,
	})
}

// awaitLock waits for another process on the directory, for a while.
func (f *flow) awaitLock(locked *datadir.LockedError) error {
	if f.lockedSince.IsZero() {
		f.lockedSince = time.Now()
	}
	if time.Since(f.lockedSince) > lockTimeout {
		return locked
	}
	return transient(fmt.Errorf("%w; waiting up to %s for it, in case it is stopping", locked, lockTimeout))
}

// renewCertificate renews the certificates that are due before etcd starts: after a
// year off, no other member accepts this node's.
func renewCertificate(_ context.Context, f *flow) error {
	renewed, err := pki.Renew(f.dir.PKI(), f.marker.Node, f.marker.Address, time.Now())
	if renewed {
		f.log.Info("certificates renewed")
	}
	if errors.Is(err, pki.ErrNoKey) {
		return checkExpired(f.dir) // another node signs, once this one runs
	}
	return err
}

// startOldMember starts a member with a log.
func startOldMember(ctx context.Context, f *flow) error { return f.startOld(ctx) }

// checkIdentity requires that etcd started as the member in the marker.
func checkIdentity(_ context.Context, f *flow) error {
	ids := f.current().ids()
	if got := keyspace.MemberID(ids.member); got != f.marker.MemberID {
		return &datadir.RefusedError{
			Path: f.dir.Etcd(), Problem: fmt.Sprintf("started as the etcd member %s, and the marker is of %s", got, f.marker.MemberID),
			Remedy: f.dir.ReplaceNode(f.marker),
		}
	}
	return nil
}
