package election

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// A leader stops waiting for a dead node after the time that its record has, by the
// clock alone. It waits without end for one whose record has none.
func TestElection_passesOverTheDead(t *testing.T) {
	w := newWorld(t)
	w.putExpiringRecord("expires", "0.9.0", 2*time.Second)
	w.putRecord("stays", "0.9.0")
	w.putStatus(doneAt(t, "0.9.0"))
	revision := w.statusRevision()
	n := w.start("a", "1.0.0", options{a: "1.0.0"})
	both := await(t, n.election.State(), "both block", func(s State) bool { return len(s.Step.Blockers) == 2 })
	expires, stays := both.Absences["expires"], both.Absences["stays"]
	if expires.GoneSince.IsZero() || expires.PassedOverAt.Sub(expires.GoneSince.Time) != 2*time.Second {
		t.Errorf("the one that expires: got %+v", expires)
	}
	if stays.GoneSince.IsZero() || !stays.PassedOverAt.IsZero() {
		t.Errorf("the one that does not: got %+v", stays)
	}

	one := await(t, n.election.State(), "one blocks", func(s State) bool { return len(s.Step.Blockers) == 1 })
	if r := w.statusRevision(); one.Step.Blockers[0].Node != "stays" || one.Epoch != both.Epoch || r != revision {
		t.Errorf("got %s in epoch %d, status at %d", one.Step, one.Epoch, r)
	}
	if absent := time.Since(expires.GoneSince.Time); absent < 2*time.Second {
		t.Errorf("expired after %s", absent)
	}

	w.delete(keys.Node("stays"))
	if s := n.awaitStatus(protocol.Done, "1.0.0"); s.MinCompatible != rel(t, "1.0.0") {
		t.Errorf("got %s", s)
	}
}

// A node that is cut off has closed its gate when the leader stops waiting for it,
// and returns with a registration that is newer than the status that shut it out.
func TestElection_passesOverTheCutOff(t *testing.T) {
	w := newWorld(t)
	w.putStatus(doneAt(t, "0.9.0"))
	b := w.start("b", "0.9.0", options{ttl: 3 * time.Second, expireAfter: 2 * time.Second})
	await(t, b.registrar.Registration(), "registered", func(r protocol.Registration) bool { return r.Matches })
	a := w.start("a", "1.0.0", options{a: "1.0.0"})
	if step := a.awaitStep(protocol.StepAwait); len(step.Blockers) != 1 || step.Blockers[0].Node != "b" {
		t.Errorf("got %s, want b to block", step)
	}
	b.proxy.Cut(etcdtest.Blackhole)
	restricted := await(t, a.store.Observed(), "restricted", func(o status.Observed) bool {
		return o.View.Status.MinCompatible == rel(t, "1.0.0")
	})
	if got := b.registrar.Registration().Get(); !got.Overdue || got.Matches {
		t.Errorf("the leader waits for b no longer while b shows %+v", got)
	}
	b.proxy.Restore()
	again := await(t, b.registrar.Registration(), "registered again", func(r protocol.Registration) bool { return r.Matches })
	if again.Revision <= restricted.View.Revision {
		t.Errorf("b registered at revision %d, and was shut out at %d", again.Revision, restricted.View.Revision)
	}
}

// A leader counts absences itself, from the start.
func TestElection_countsAbsencesItself(t *testing.T) {
	w := newWorld(t)
	w.putExpiringRecord("dead", "0.9.0", time.Hour)
	w.putStatus(doneAt(t, "0.9.0"))
	counting := func(s State) bool { return len(s.Step.Blockers) == 1 }
	a := w.start("a", "1.0.0", options{a: "1.0.0"})
	first := await(t, a.election.State(), "a counts", counting)
	a.stop()
	if left := a.election.State().Get().Absences; len(left) != 0 {
		t.Errorf("a leads no longer and shows %+v", left)
	}
	b := w.start("b", "1.0.0", options{a: "1.0.0"})
	second := await(t, b.election.State(), "b counts", counting)
	if !second.Absences["dead"].GoneSince.After(first.Absences["dead"].GoneSince.Time) {
		t.Errorf("got %+v after %+v", second.Absences, first.Absences)
	}
}

// Messages follow the sidecar's own count of how long a node is missing. It is older than the leadership: otherwise each new leader
// would say for minutes that the node may be restarting, beside a row that says how to remove it.
func TestElection_messagesOutlastLeaders(t *testing.T) {
	w := newWorld(t)
	w.putExpiringRecord("dead", "0.9.0", time.Hour)
	w.putStatus(doneAt(t, "0.9.0"))
	blocked := func(s State) bool { return len(s.Step.Blockers) == 1 }
	for _, tc := range []struct {
		missing time.Duration
		removal bool
	}{{0, false}, {protocol.RemoveAfter, true}} {
		since := time.Now().Add(-tc.missing)
		n := w.start("a", "1.0.0", options{a: "1.0.0", missing: func(protocol.NodeID) time.Time { return since }})
		s := await(t, n.election.State(), "the dead node blocks", blocked)
		if got := s.Step.Blockers[0].Message; strings.Contains(got, "sidecar node remove dead") != tc.removal {
			t.Errorf("missing for %s: got %q", tc.missing, got)
		}
		n.stop()
	}
}
