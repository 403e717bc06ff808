package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A record with FenceAfter is a promise: nobody serves behind it whose presence
// was not confirmed for half of that (DESIGN 4.9). Leaders count from when they
// first see the presence gone, by their own clocks, and anew where the record was
// written since. That they cannot miss a presence which came and went between
// two of their looks rests on one more condition: a presence counts as confirmed
// only once the record was written after it was put.
//
//  1. A leader sees the presence gone, and the record at revision m.
//  2. The presence is put again, at p > m. It is gone again before the leader looks.
//  3. The leader sees it gone, and the record still at m: it has been gone for
//     FenceAfter since step 1, as far as the leader can know.
//
// Nothing was confirmed in step 2: that would have taken a write of the record,
// at a revision above p. Nor can a presence that comes back after the leader's
// snapshot be confirmed before its write without breaking the write's guard, for
// that is on the node records.

const (
	// affirmations is how often a presence is confirmed while FenceAfter passes.
	affirmations = 10
	// maxAffirmPause bounds the pause between two confirmations.
	maxAffirmPause = 10 * time.Second
	// fenceLooks is how often the clock is read while FenceAfter passes, and
	// maxFencePause bounds the pause: a timer would not run through a suspension.
	fenceLooks    = 50
	maxFencePause = 500 * time.Millisecond
)

// errLate says that the answer to a registration came so late that leaders may
// have passed over the record in the meantime.
var errLate = errors.New("etcd answered too late")

// fenceAfter returns what the own record promises; 0: nothing.
func (r *Registrar) fenceAfter() time.Duration { return r.cfg.Local.Get().FenceAfter }

// confirm notes that a request which was sent at sent found the presence
// confirmed.
func (r *Registrar) confirm(sent time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed = sent
}

// overdue needs mu.
func (r *Registrar) overdue() bool {
	return protocol.FenceDue(r.clock.now()-r.confirmed, r.fenceAfter())
}

// publish shows a new registration, unless what it rests on is too old.
func (r *Registrar) publish(now protocol.Registration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.overdue() {
		return errLate
	}
	r.registration.Set(now)
	return nil
}

// withdraw shows that there is no registration any more. Fenced stands until
// there is a new one.
func (r *Registrar) withdraw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registration.Set(protocol.Registration{Fenced: r.registration.Get().Fenced})
}

// keepFenced closes the gate when the presence has not been confirmed for too
// long, until ctx ends. It waits for nothing but the clock.
func (r *Registrar) keepFenced(ctx context.Context) error {
	after := r.fenceAfter()
	if after <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(min(after/fenceLooks, maxFencePause))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			r.fence()
		}
	}
}

// fence withdraws the registration if the presence has not been confirmed for
// too long. Without one the gate is closed anyway, until the record is written.
func (r *Registrar) fence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.registration.Get().Confirmed || !r.overdue() {
		return
	}
	r.registration.Set(protocol.Registration{Fenced: true})
	r.cfg.Log.Warn("the presence was not confirmed for too long, leaders may pass over this node: the gate closes", "fenceAfter", r.fenceAfter())
}

// affirming returns what tells when to confirm the presence: never where the
// record promises nothing.
func (r *Registrar) affirming() (tick <-chan time.Time, stop func()) {
	after := r.fenceAfter()
	if after <= 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(min(after/affirmations, maxAffirmPause))
	return ticker.C, ticker.Stop
}

// affirm confirms the presence, or is tried again at the next tick.
func (r *Registrar) affirm(ctx context.Context) {
	if r.fenceAfter() <= 0 {
		return
	}
	if err := r.affirmOnce(ctx); err != nil && ctx.Err() == nil {
		r.cfg.Log.Debug("presence not confirmed, trying again", "err", err)
	}
}

// affirmOnce looks whether the presence is there and the record was written
// since it was put, and writes the record if it was not.
func (r *Registrar) affirmOnce(ctx context.Context) error {
	lease := r.cfg.Presence.Get()
	if lease == clientv3.NoLease {
		return errNoPresence
	}
	keys, id := r.keys, r.cfg.Local.Get().ID
	sent := r.clock.now()
	txn, err := r.cfg.Client.Txn(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(keys.Presence(id)), "=", lease)},
		[]clientv3.Op{clientv3.OpGet(keys.Presence(id)), clientv3.OpGet(keys.Node(id))}, nil)
	switch {
	case err != nil:
		return fmt.Errorf("confirm presence: %w", err)
	case !txn.Succeeded:
		return errChanged
	}
	presence, record := etcd.NewListing(txn, 0).KVs, etcd.NewListing(txn, 1).KVs
	if len(record) > 0 && record[0].ModRevision > presence[0].CreateRevision {
		r.confirm(sent)
		return nil
	}
	// Only over the very record that was judged, as in look.
	return r.write(ctx, r.last.Node.Roles, r.last.Revision)
}
