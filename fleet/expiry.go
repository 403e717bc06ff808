package fleet

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
)

// This file is the node's half of the expiry of dead nodes' records
// (docs/protocol-nodes.md#dead-nodes). Package election contains the leader's half.
//
// A record with ExpireAfter is a promise: the node closes its gate when its presence was not
// confirmed for half that time. So a leader may ignore the record once the presence has been
// missing for all of that time. The leader measures by its own clock, from its first snapshot
// without the presence. It starts again whenever the record was written.
//
// A leader takes snapshots now and then. A presence could return and vanish
// between two of them:
//
//  1. A snapshot contains no presence, and the record at revision m.
//  2. The node writes its presence at revision p > m. The lease then ends.
//  3. The next snapshot contains no presence, and the record still at revision m. For
//     the leader, the presence has been missing since step 1.
//
// So a presence counts as confirmed only if the record was written after it. Nothing was
// confirmed in step 2: the record's revision would be above p. The same write protects the time
// between a leader's last snapshot and the status that it writes: that transaction fails if any
// node record was written after the snapshot.

const (
	// confirmsPerExpiry is how often a presence is confirmed during ExpireAfter.
	// maxConfirmInterval bounds the time between two confirmations. It is less than the
	// default TTL, so that the checks in them are all that this sidecar needs.
	confirmsPerExpiry  = 10
	maxConfirmInterval = 9 * time.Second
	// readsPerExpiry is how often the clock is read during ExpireAfter, and
	// maxClockInterval bounds the time between two reads. A single timer would not
	// do: it stops while the machine is suspended.
	readsPerExpiry   = 50
	maxClockInterval = 500 * time.Millisecond
)

// expireAfter returns how long this node's presence must be missing until
// leaders ignore its record; 0: they never do.
func (r *Registrar) expireAfter() time.Duration { return r.cfg.Local.Get().ExpireAfter }

// confirm remembers when a request was sent that confirmed the presence.
func (r *Registrar) confirm(sent time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed = sent
}

// overdue reports whether the gate must close. It needs mu.
func (r *Registrar) overdue() bool {
	return protocol.Overdue(r.clock.now()-r.confirmed, r.expireAfter())
}

// publish publishes a new registration. It returns errLate if the presence was
// confirmed too long ago.
func (r *Registrar) publish(registration protocol.Registration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.overdue() {
		return errLate
	}
	r.set(registration)
	return nil
}

// unpublish publishes that the node is not registered. Overdue stays set until the
// next registration.
func (r *Registrar) unpublish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(protocol.Registration{Overdue: r.registration.Get().Overdue})
}

// closeWhenOverdue closes the gate whenever the presence was not confirmed for too
// long, until ctx ends. It does no I/O, so nothing can delay it.
func (r *Registrar) closeWhenOverdue(ctx context.Context) error {
	after := r.expireAfter()
	if after <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return backoff.Every(ctx, min(after/readsPerExpiry, maxClockInterval), r.closeIfOverdue)
}

// closeIfOverdue unpublishes a registration whose presence was not confirmed for too long. The
// gate of a node that is not registered is closed already.
func (r *Registrar) closeIfOverdue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.registration.Get().Matches || !r.overdue() {
		return
	}
	r.set(protocol.Registration{Overdue: true})
	r.cfg.Log.Warn("gate closed: the presence was not confirmed for too long, leaders may ignore this node", "expireAfter", r.expireAfter())
}

// confirmTicks returns a channel that fires when the presence must be confirmed. It never fires
// if the record does not expire.
func (r *Registrar) confirmTicks() (tick <-chan time.Time, stop func()) {
	after := r.expireAfter()
	if after <= 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(min(after/confirmsPerExpiry, maxConfirmInterval))
	return ticker.C, ticker.Stop
}

// confirmPresence makes one attempt. The next tick makes another.
func (r *Registrar) confirmPresence(ctx context.Context) {
	if r.expireAfter() <= 0 {
		return
	}
	if err := r.tryConfirm(ctx); err != nil && ctx.Err() == nil {
		r.cfg.Log.Debug("presence not confirmed, trying again", "err", err)
	}
}

// tryConfirm reads whether this instance holds the presence, and whether the record was written
// after it. If not, it writes the record.
func (r *Registrar) tryConfirm(ctx context.Context) error {
	lease := r.cfg.Presence.Get()
	if lease == clientv3.NoLease {
		return errNoPresence
	}
	id := r.cfg.Local.Get().ID
	sent := r.clock.now()
	txn, err := r.cfg.Client.CheckWith(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(r.keys.Presence(id)), "=", lease)},
		clientv3.OpGet(r.keys.Presence(id)), clientv3.OpGet(r.keys.Node(id)))
	if err != nil {
		return fmt.Errorf("confirm presence: %w", err)
	}
	presence, record := etcd.NewListing(txn, 0).KVs, etcd.NewListing(txn, 1).KVs
	if len(record) > 0 && record[0].ModRevision > presence[0].CreateRevision {
		r.confirm(sent)
		return nil
	}
	return r.rewrite(ctx)
}
