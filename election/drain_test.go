package election

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// How long a leader waits follows the election timeout of the etcd behind the API
// servers.
func TestNew_drainTime(t *testing.T) {
	for _, electionTimeout := range []time.Duration{0, 5 * time.Second} {
		local := event.New(protocol.Local{ID: "a", EtcdElectionTimeout: electionTimeout})
		e := New(Config{Client: newClient(t, "127.0.0.1:1"), Local: local})
		if want := protocol.DrainTime(electionTimeout); e.drainTime != want {
			t.Errorf("with %s: got %s, want %s", electionTimeout, e.drainTime, want)
		}
	}
}

// What one leader records for the next about its requests, and how long the next
// one waits (docs/protocol-objects.md#drain).
func TestDrain(t *testing.T) {
	t.Run("there was no leader before: no wait", func(t *testing.T) {
		w := newWorld(t)
		n := w.start("a", "1.0.0", options{})
		n.awaitStep(protocol.StepHold)
		w.wantQuiet(false)
		n.stop()
		w.wantDrained(true)
		next := w.start("a", "1.1.0", options{})
		next.awaitStep(protocol.StepHold)
		w.wantQuiet(false)
	})
	t.Run("a leader that has crashed: wait", func(t *testing.T) {
		w := newWorld(t)
		w.putStatus(crashed(t))
		began := time.Now()
		n := w.start("a", "1.1.0", options{})
		n.awaitStep(protocol.StepHold)
		if q := w.api.lastQuiet(); q.Before(began.Add(time.Hour)) {
			t.Errorf("got a wait until %v, want it an hour after the election", q)
		}
		n.stop()
		w.wantDrained(false) // it has not waited long enough for the leader before it
	})
	t.Run("a leader that has waited drains for the one before", func(t *testing.T) {
		w := newWorld(t)
		w.putStatus(crashed(t))
		n := w.start("a", "1.1.0", options{drainTime: time.Nanosecond})
		n.awaitStep(protocol.StepHold)
		n.stop()
		w.wantDrained(true)
	})
	t.Run("the next leader learns of a request of unknown outcome", func(t *testing.T) {
		w := newWorld(t)
		w.api.expect("reconcile", leavesRequest)
		n := w.start("a", "1.0.0", options{})
		n.awaitStep(protocol.StepHold)
		n.stop()
		w.wantDrained(false)
	})
	t.Run("a leader waits for its own request of other content only", func(t *testing.T) {
		w := newWorld(t)
		w.api.expect("reconcile", leavesRequest, isIncomplete)
		n := w.start("a", "1.0.0", options{})
		n.awaitProblem()
		w.api.expect("reconcile", leavesRequest)
		n.awaitStep(protocol.StepHold)
		w.wantQuiet(false)
		event.Update(n.local, func(l protocol.Local) protocol.Local { l.Digest = "another"; return l })
		await(t, n.store.Observed(), "the other content", func(o status.Observed) bool {
			return o.View.Status.State == protocol.Done && o.View.Status.Digest == "another"
		})
		w.wantQuiet(true)
	})
}

// A leader that gives up after the store went back does not say that it has drained: the status may be one
// that the restore brought back.
func TestLeadership_giveUp_storeWentBack(t *testing.T) {
	w := newWorld(t)
	w.putStatus(crashed(t))
	w.withLeadership(localOf(t, "a", "1.1.0", "0.0.0"), func(ctx context.Context, l *leadership) {
		l.e.drainTime = time.Nanosecond
		in, err := l.gather(ctx)
		if err != nil {
			t.Fatal(err)
		}
		l.confirm(&in)
		before := w.statusRevision()
		l.e.cfg.Client.Rewound().Set(1)
		if l.giveUp(ctx); w.statusRevision() != before {
			t.Error("it says whether it has drained")
		}
		l.rewinds = 1
		if l.giveUp(ctx); w.statusRevision() == before {
			t.Error("without a restore, it does not say so")
		}
	})
}

// crashed is the status of a leader that did not resign.
func crashed(t *testing.T) protocol.Status {
	return protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "1.0.0")}, Leader: "crashed", Epoch: 5, ContentEpoch: 1}
}

// wantQuiet checks whether the newest pass had to wait for earlier requests.
func (w *world) wantQuiet(want bool) {
	w.Helper()
	if q := w.api.lastQuiet(); q.IsZero() == want {
		w.Errorf("the pass has to wait until %v; want a wait: %t", q, want)
	}
}

// wantDrained checks what the status records after a graceful stop.
func (w *world) wantDrained(want bool) {
	w.Helper()
	if s := w.readStatus(); s.Epoch == 0 || (s.DrainedEpoch == s.Epoch) != want {
		w.Errorf("got %s; want it drained: %t", s, want)
	}
}
