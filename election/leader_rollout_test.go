package election

import (
	"testing"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// The first leader writes a status only after the first reconciliation.
func TestElection_newCluster(t *testing.T) {
	w := newWorld(t)
	released := make(chan struct{})
	w.api.expect("reconcile", blocksUntil(released))
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepReconcile)
	if r := w.statusRevision(); r != 0 {
		t.Errorf("the leader wrote a status (revision %d) before the first reconciliation was complete", r)
	}
	close(released)
	s := n.awaitStatus(protocol.Done, "1.0.0")
	if s.Leader != "a" || s.Epoch == 0 || s.ContentEpoch != 1 || s.Digest != "d1.0.0" {
		t.Errorf("got %s", s)
	}
	n.awaitStep(protocol.StepHold)
}

// The leader touches nothing while a node is below its minimum, and restricts the
// status when none is.
func TestElection_blockers(t *testing.T) {
	w := newWorld(t)
	w.putRecord("old", "0.9.0")
	w.putStatus(doneAt(t, "0.9.0"))
	revision := w.statusRevision()
	n := w.start("a", "1.0.0", options{a: "1.0.0"})
	step := n.awaitStep(protocol.StepAwait)
	if len(step.Blockers) != 1 || step.Blockers[0].Node != "old" || step.Blockers[0].Reason != protocol.ReleaseTooOld {
		t.Errorf("got %+v", step.Blockers)
	}
	if r, calls := w.statusRevision(), w.api.jobs(); r != revision || calls != "" {
		t.Errorf("with a node that is too old: status revision %d, want %d; calls %q", r, revision, calls)
	}
	w.putRecord("old", "1.0.0")
	if s := n.awaitStatus(protocol.Done, "1.0.0"); s.MinCompatible != rel(t, "1.0.0") {
		t.Errorf("got %s", s)
	}
}

// A node that the status does not admit anyway keeps no leader waiting.
func TestElection_shutOutNodeDoesNotBlock(t *testing.T) {
	w := newWorld(t)
	w.putRecord("old", "0.8.0")
	w.putStatus(doneAt(t, "0.9.0"))
	n := w.start("a", "1.0.0", options{a: "1.0.0"})
	n.awaitStatus(protocol.Done, "1.0.0")
}

// Objects that the API rejects keep the status WORKING, and are tried again.
func TestElection_incomplete(t *testing.T) {
	w := newWorld(t)
	w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}})
	w.api.expect("reconcile", isIncomplete)
	n := w.start("a", "1.0.0", options{})
	n.awaitProblem()
	n.awaitStatus(protocol.Working, "0.9.0")
	w.api.works()
	n.awaitStatus(protocol.Done, "1.0.0")
}

// A bundle that changes under the leader is new content, with a new epoch.
func TestElection_bundleChanges(t *testing.T) {
	w := newWorld(t)
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepHold)
	event.Update(n.local, func(l protocol.Local) protocol.Local { l.Digest = "other"; return l })
	await(t, n.store.Observed(), "the other content", func(o status.Observed) bool {
		s := o.View.Status
		return s.State == protocol.Done && s.Digest == "other" && s.ContentEpoch == 2
	})
}
