package election

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// awaitAPI waits until the API is as ok says.
func (w *world) awaitAPI(what string, ok func(*api) bool) {
	w.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		is := false
		w.api.set(func(a *api) { is = ok(a) })
		if is {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatalf("%s: not seen in time", what)
		}
	}
}

func (w *world) awaitKeeping(n int) {
	w.Helper()
	w.awaitAPI("objects to be kept", func(a *api) bool { return len(a.keeping) >= n })
}

// The objects are kept while the leader holds by KeepTarget. Before any other step
// that is ended, and waited for.
func TestKeep_endsBeforeAnotherStep(t *testing.T) {
	for _, tt := range []struct {
		name    string
		disturb func(*node)
	}{
		{"other content is written", func(n *node) {
			n.local.Update(func(l protocol.Local) protocol.Local { l.Digest = "other"; return l })
		}},
		{"the status is written again", func(n *node) { n.delete(keys.Status()) }},
		{"a newer content is held back for", func(n *node) {
			n.putRecord("new", "1.1.0")
			n.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(n.T, "1.1.0")}, ContentRelease: rel(n.T, "1.1.0"), ContentEpoch: 9})
		}},
		{"leadership is given up", func(n *node) { n.stop() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			let, letting := make(chan struct{}), make(chan struct{}, 1)
			w.api.set(func(a *api) { a.letGo = func() { letting <- struct{}{}; <-let } })
			n := w.start("a", "1.0.0", options{})
			w.awaitKeeping(1)
			if s := n.election.State().Get(); s.Working {
				t.Errorf("got %+v, want nothing at work", s)
			}
			calls, epoch := len(w.api.called()), n.election.State().Get().Epoch
			disturbed := make(chan struct{})
			go func() { defer close(disturbed); tt.disturb(n) }()
			<-letting
			// It has been told to end, and has not. What the leader does meanwhile
			// would be seen while etcd answers so often.
			for range 200 {
				if w.statusRevision() == 0 {
					continue
				}
				if s := w.readStatus(); s.Epoch == epoch && (s.Digest == "other" || s.DrainedEpoch != 0) {
					t.Fatalf("%s was written beside objects that are kept", s)
				}
			}
			if now := w.api.called(); len(now) != calls {
				t.Errorf("got %q beside objects that are kept", now[calls:])
			}
			w.api.set(func(a *api) { a.letGo = nil })
			close(let)
			<-disturbed
			w.awaitAPI("the end", func(a *api) bool { return a.kept == 1 })
		})
	}
}

// Where repairs are not enough, a full pass is made, and then they are kept
// again; passes that do not help for long are slowed down.
func TestKeep_fullPassWhenItEnds(t *testing.T) {
	w := newWorld(t)
	w.api.set(func(a *api) { a.drift = make(chan error) })
	n := w.start("a", "1.0.0", options{})
	w.awaitKeeping(1)
	passes := len(w.api.called())
	w.api.drift <- errors.New("a full pass is due")
	w.awaitKeeping(2)
	if got := len(w.api.called()) - passes; got != 1 {
		t.Errorf("got %d passes, want one: %q", got, w.api.called())
	}
	ended := time.Now()
	w.api.drift <- errors.New("and again")
	w.awaitKeeping(3)
	if took := time.Since(ended); took < minJobPause {
		t.Errorf("the next pass followed after %s", took)
	}
	n.awaitStep(protocol.StepHold)
}

// A repair of unknown outcome is told to the next leader like that of a pass.
func TestKeep_unsure(t *testing.T) {
	w := newWorld(t)
	w.api.set(func(a *api) { a.keptUnsure = true })
	n := w.start("a", "1.0.0", options{})
	w.awaitKeeping(1)
	n.stop()
	if s := w.readStatus(); s.DrainedEpoch >= s.Epoch {
		t.Errorf("got %s, want it undrained", s)
	}
}
