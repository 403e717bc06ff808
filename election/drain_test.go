package election

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// lastQuiet is what the newest pass was told.
func (a *api) lastQuiet() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.quiet[len(a.quiet)-1]
}

// TestDrain follows what one leader tells the next of its requests (DESIGN 6.4).
func TestDrain(t *testing.T) {
	t.Run("nobody was there: nothing to wait for", func(t *testing.T) {
		w := newWorld(t)
		n := w.start("a", "1.0.0", options{})
		n.awaitStep(protocol.StepHold)
		if q := w.api.lastQuiet(); !q.IsZero() {
			t.Errorf("got a wait until %v in a new cluster", q)
		}
		n.stop()
		if s := w.readStatus(); s.DrainedEpoch != s.Epoch || s.Epoch == 0 {
			t.Errorf("got %s after a graceful stop, want it drained", s)
		}
		next := w.start("a", "1.1.0", options{})
		next.awaitStep(protocol.StepHold)
		if q := w.api.lastQuiet(); !q.IsZero() {
			t.Errorf("got a wait until %v after a leader that drained", q)
		}
	})
	t.Run("a leader that only went away is waited for", func(t *testing.T) {
		w := newWorld(t)
		w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "1.0.0")}, Leader: "gone", Epoch: 5, ContentEpoch: 1})
		began := time.Now()
		n := w.start("a", "1.1.0", options{})
		n.awaitStep(protocol.StepHold)
		if q := w.api.lastQuiet(); q.Before(began.Add(time.Hour)) {
			t.Errorf("got a wait until %v, want it an hour after the election", q)
		}
		n.stop()
		if s := w.readStatus(); s.DrainedEpoch >= s.Epoch {
			t.Errorf("got %s: a short-lived leader hides the requests of the one before", s)
		}
	})
	t.Run("a leader that has waited drains for those before it", func(t *testing.T) {
		w := newWorld(t)
		w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "1.0.0")}, Leader: "gone", Epoch: 5, ContentEpoch: 1})
		n := w.start("a", "1.1.0", options{drainTime: time.Nanosecond})
		n.awaitStep(protocol.StepHold)
		n.stop()
		if s := w.readStatus(); s.DrainedEpoch != s.Epoch {
			t.Errorf("got %s, want it drained", s)
		}
	})
	t.Run("a request of unknown outcome is told to the next leader", func(t *testing.T) {
		w := newWorld(t)
		w.api.set(func(a *api) { a.unsure = true })
		n := w.start("a", "1.0.0", options{})
		n.awaitStep(protocol.StepHold)
		n.stop()
		if s := w.readStatus(); s.DrainedEpoch >= s.Epoch {
			t.Errorf("got %s, want it undrained", s)
		}
	})
	t.Run("the own requests of other content are waited for, those of the same are not", func(t *testing.T) {
		w := newWorld(t)
		w.api.set(func(a *api) { a.unsure, a.refuse = true, true })
		n := w.start("a", "1.0.0", options{})
		await(t, n.election.State(), "a pass that was refused", func(s State) bool { return s.Problem != "" })
		w.api.set(func(a *api) { a.refuse = false })
		n.awaitStep(protocol.StepHold)
		if q := w.api.lastQuiet(); !q.IsZero() {
			t.Errorf("got a wait until %v for a request of the same content", q)
		}
		local := n.local.Get()
		local.Digest = "another"
		n.local.Set(local)
		await(t, n.store.Observed(), "the other content", func(o status.Observed) bool {
			return o.View.Status.State == protocol.Done && o.View.Status.Digest == "another"
		})
		if q := w.api.lastQuiet(); q.IsZero() {
			t.Error("got no wait for a request of other content")
		}
	})
}

// readStatus reads what stands in etcd.
func (w *world) readStatus() protocol.Status {
	w.Helper()
	resp, err := w.raw.Get(w.Context(), keys.Status())
	if err != nil || len(resp.Kvs) == 0 {
		w.Fatalf("read the status: %v, %v", resp, err)
	}
	kv := etcd.NewKV(resp.Kvs[0])
	return status.Decode(&kv).Status
}
