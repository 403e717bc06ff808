package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/cluster/datadir"
)

// runEmbedded carries out the flow that the data directory needs, then keeps the
// member running until ctx ends.
func (m *Manager) runEmbedded(ctx context.Context) error {
	f := &flow{cfg: *m.cfg.Embedded, client: m.cfg.Client, log: m.log, show: m.show}
	state, name, steps := f.choose()
	if err := m.enter(state); err != nil {
		return err
	}
	err := f.carryOut(ctx, name, steps)
	if err == nil {
		err = m.enter(Running)
	}
	if err == nil {
		<-ctx.Done()
		err = ctx.Err()
	} else {
		err = m.fail(err)
	}
	return errors.Join(err, f.close())
}

// choose returns the flow for the directory as it is. It does not lock the
// directory: the first step does, and checks it. So one that cannot be read counts
// as one that exists.
func (f *flow) choose() (State, string, []step) {
	marker, err := datadir.Layout(f.cfg.DataDir).ReadMarker()
	begun := err == nil && marker.Phase != datadir.Member && marker.Phase != datadir.Removed
	switch {
	case err != nil && !errors.Is(err, datadir.ErrNoMarker):
		return RestartingMember, "restart", restartSteps()
	case errors.Is(err, datadir.ErrNoMarker) && f.cfg.Join == "", begun && marker.Intent == datadir.Create:
		return CreatingCluster, "create", createSteps()
	case errors.Is(err, datadir.ErrNoMarker), begun && marker.Intent == datadir.Join:
		return JoiningCluster, "join", joinSteps()
	}
	return RestartingMember, "restart", restartSteps()
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

// close unlocks the directory.
func (f *flow) close() error {
	if f.dir == nil {
		return nil
	}
	return f.dir.Close()
}

// newUUID returns a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never returns an error
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
