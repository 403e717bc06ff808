package election

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// The objects are kept while the leader holds. Before any other step, the leader
// ends that and waits until it has ended.
func TestKeep_endsBeforeAnotherStep(t *testing.T) {
	for _, tt := range []struct {
		name    string
		disturb func(*node) // does not block
	}{
		{"other content is written", func(n *node) {
			event.Update(n.local, func(l protocol.Local) protocol.Local { l.Digest = "other"; return l })
		}},
		{"the status is written again", func(n *node) { n.delete(keys.Status()) }},
		{"the leader holds for newer content", func(n *node) {
			n.putRecord("new", "1.1.0")
			n.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(n.T, "1.1.0")}, ContentRelease: rel(n.T, "1.1.0"), ContentEpoch: 9})
		}},
		{"the leader resigns", func(n *node) { go n.stop() }},
	} {
		t.Run(tt.name, func(t *testing.T) { testKeepEnds(t, tt.disturb) })
	}
}

func testKeepEnds(t *testing.T, disturb func(*node)) {
	w := newWorld(t)
	ending, mayEnd := make(chan struct{}), make(chan struct{})
	begins, release := sync.OnceFunc(func() { close(ending) }), sync.OnceFunc(func() { close(mayEnd) })
	w.api.expect("keep", beforeItEnds(func() { begins(); <-mayEnd }))
	n := w.start("a", "1.0.0", options{})
	t.Cleanup(release) // before the node is stopped
	w.api.awaitCalls(t, "keep", 1)
	if s := n.election.State().Get(); s.Working {
		t.Errorf("got %+v, want no pass", s)
	}
	jobs, epoch := w.api.jobs(), n.election.State().Get().Epoch

	disturb(n)
	select {
	case <-ending:
	case <-time.After(patience):
		t.Fatal("the job was not cancelled")
	}
	// The job was cancelled and goes on. A leader that does not wait for it acts
	// within milliseconds.
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; {
		if v := w.view(); v.Status.Epoch == epoch && (v.Status.Digest == "other" || v.Status.DrainedEpoch != 0) {
			t.Fatalf("%s was written while the objects are kept", v.Status)
		}
	}
	if got := w.api.jobs(); got != jobs {
		t.Errorf("calls while the objects are kept: got %q after %q", got, jobs)
	}

	w.api.works() // when keeping begins again
	release()
	w.api.awaitCalls(t, kept, 1)
}

// If repairs are not enough, the leader makes a full pass, and then keeps the
// objects again. Passes that do not help are made less and less often.
func TestKeep_fullPassWhenItEnds(t *testing.T) {
	w := newWorld(t)
	due := make(chan error)
	w.api.expect("keep", endsWith(due))
	n := w.start("a", "1.0.0", options{})
	w.api.awaitCalls(t, "keep", 1)
	passes := w.api.count("reconcile")
	due <- errors.New("a full pass is due")
	w.api.awaitCalls(t, "keep 1.0.0@1"+kept, 1)
	w.api.awaitCalls(t, "keep", 3) // began, ended, began
	if got := w.api.count("reconcile") - passes; got != 1 {
		t.Errorf("got %d passes, want one: %q", got, w.api.jobs())
	}
	ended := time.Now()
	due <- errors.New("another one")
	w.api.awaitCalls(t, "keep", 5)
	if pause := time.Since(ended); pause < minJobPause {
		t.Errorf("the next pass followed after %s", pause)
	}
	n.awaitStep(protocol.StepHold)
}

// The next leader learns of a repair of unknown outcome, as of a pass.
func TestKeep_unknownOutcome(t *testing.T) {
	w := newWorld(t)
	w.api.expect("keep", leavesRequest)
	n := w.start("a", "1.0.0", options{})
	w.api.awaitCalls(t, "keep", 1)
	n.stop()
	if s := w.readStatus(); s.DrainedEpoch >= s.Epoch {
		t.Errorf("got %s, want it undrained", s)
	}
}
