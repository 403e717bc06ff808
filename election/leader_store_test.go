package election

import (
	"testing"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
)

// foreignMark is what the leader of another store left.
func foreignMark(t *testing.T) protocol.Mark {
	t.Helper()
	return protocol.Mark{
		Kind: protocol.MarkPresent, FirstDone: true, HighestEpoch: 7, Store: "0123456789abcdef0123456789abcdef",
		Entries: []protocol.Content{{Release: rel(t, "0.9.0"), Digest: "x", Epoch: 7}},
	}
}

// A leader of an empty store finds the objects of another store. It writes nothing,
// reads the mark again, and goes on as soon as its store has that ID.
func TestElection_holdsForStore(t *testing.T) {
	w := newWorld(t)
	theirs := foreignMark(t)
	w.api.setMark(theirs)
	n := w.start("a", "1.0.0", options{})
	step := n.awaitStep(protocol.StepHold)
	if step.Rule != protocol.HoldForStore {
		t.Errorf("got %s", step)
	}
	w.api.awaitCalls(t, "survey", 3) // without any change
	if got := w.api.count("reconcile") + w.api.count("keep"); got != 0 || w.view().Kind != protocol.StatusAbsent {
		t.Errorf("the leader of another store made %d passes, and the status is %s", got, w.view())
	}
	if err := fleet.AdoptStoreID(t.Context(), n.election.cfg.Client, theirs.Store); err != nil {
		t.Fatal(err)
	}
	n.awaitStatus(protocol.Done, "1.0.0")
	if s := w.readStatus(); s.ContentEpoch != 8 {
		t.Errorf("got %s, want it rebuilt from the mark", s)
	}
}

// The leader of another store takes the objects of this one. The leader of this one
// no longer writes, and goes on when the parent is its own again.
func TestElection_losesTheObjectsToAnotherStore(t *testing.T) {
	w := newWorld(t)
	due := make(chan error)
	w.api.expect("keep", endsWith(due))
	n := w.start("a", "1.0.0", options{})
	w.api.awaitCalls(t, "keep", 1)
	own := n.election.cfg.StoreKey.Get().ID
	w.api.setStore(foreignMark(t).Store)
	due <- errDue
	await(t, n.election.State(), "it holds", func(s State) bool { return s.Step.Rule == protocol.HoldForStore })
	keeps := w.api.count("keep")
	w.api.setStore(own)
	w.api.awaitCalls(t, "keep", keeps+1)
	if s := n.election.State().Get(); s.Step.Rule != protocol.KeepTarget {
		t.Errorf("got %s", s.Step)
	}
}
