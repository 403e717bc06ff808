package election

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A candidate whose lease has ended does not become the leader
// (docs/upstream.md#etcd-election): it queues up again, with another key.
func TestElection_leaseRevokedWhileWaiting(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{})
	b.awaitState(protocol.Campaigning)
	queue := await(t, b.election.queue, "two candidates", func(l etcd.Listing) bool { return len(l.KVs) == 2 })
	epoch := queue.KVs[1].CreateRevision
	w.delete(queue.KVs[1].Key)
	await(t, b.election.queue, "b again", func(l etcd.Listing) bool {
		return len(l.KVs) == 2 && l.KVs[1].CreateRevision > epoch
	})
	if got := a.election.State().Get().Election; got != protocol.Leading {
		t.Errorf("a is %s", got)
	}
}

// A user deletes the leader's key: it stops leading, and leads again in another
// epoch.
func TestElection_keyDeleted(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{})
	epoch := a.awaitState(protocol.Leading).Epoch
	queue := await(t, a.election.queue, "a leads", func(l etcd.Listing) bool { return len(l.KVs) == 1 })
	w.delete(queue.KVs[0].Key)
	await(t, a.election.State(), "another epoch", func(s State) bool { return s.Election == protocol.Leading && s.Epoch > epoch })
}

// A fleet that lags does not make a hot loop: the leader resigns to a newer node
// that its own watch never reports, and campaigns again after a pause that grows.
func TestElection_observesLate(t *testing.T) {
	w := newWorld(t)
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepHold)
	stale := n.election.cfg
	stale.Fleet = event.New(stale.Fleet.Get())
	n.stop()
	w.putRecord("newer", "2.0.0")
	first := w.put(keys.Presence("newer"), nil)

	late := New(stale)
	began := time.Now()
	stop := w.run(late.Run, n.presence.Run)
	const campaigns = 4
	var last int64
	for seen := 0; seen < campaigns; {
		q := await(t, late.queue, "another candidate's key", func(l etcd.Listing) bool {
			return len(l.KVs) > 0 && l.KVs[0].CreateRevision > last
		})
		last, seen = q.KVs[0].CreateRevision, seen+1
	}
	if got, want := time.Since(began), 7*minCampaignPause/2; got < want {
		t.Errorf("%d campaigns took %s, want pauses of at least %s in all", campaigns, got, want)
	}
	stop()
	// Each campaign creates a key and deletes it.
	if all := w.put("/elsewhere", nil) - first; all > 5*campaigns {
		t.Errorf("%d revisions were written by %d campaigns", all, campaigns)
	}
}

// A watch that has just been opened may report nothing for a while. The candidate finds out without it that it is
// the first.
func TestElection_watchLags(t *testing.T) {
	w := newWorld(t)
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepHold)
	cfg := n.election.cfg
	cfg.Fleet = event.New(cfg.Fleet.Get())
	n.stop()
	blind := New(cfg) // nothing follows the queue for it
	err := cfg.Client.WithSession(t.Context(), time.Minute, func(ctx context.Context, s *etcd.Session) error {
		epoch, err := blind.enqueue(ctx, s, keys.Leader(int64(s.Lease())))
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if first, err := blind.awaitFirst(ctx, s, epoch); err != nil || !first {
			t.Errorf("got %v, %v", first, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
