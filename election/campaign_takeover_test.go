package election

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A second candidate waits; the first stops; the second leads, long before the
// first one's lease would have ended.
func TestElection_gracefulStop(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{ttl: time.Hour})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{ttl: time.Hour})
	b.awaitState(protocol.Campaigning)
	a.stop()
	b.awaitStep(protocol.StepHold)
	if s := w.readStatus(); s.State != protocol.Done || s.Leader != "b" || s.ContentEpoch != 1 {
		t.Errorf("got %s", s)
	}
	if got, want := w.api.jobs(), "a survey, a reconcile 1.0.0@1, b reconcile 1.0.0@1"; got != want {
		t.Errorf("calls: got %q, want %q", got, want)
	}
}

// A newer release leads at once when its node is alive, before older candidates.
func TestElection_newerTakesOver(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{ttl: time.Hour})
	a.awaitStep(protocol.StepHold)
	w.start("b", "1.0.0", options{ttl: time.Hour}).awaitState(protocol.Campaigning)
	c := w.start("c", "1.1.0", options{ttl: time.Hour})
	s := c.awaitStatus(protocol.Done, "1.1.0")
	if s.Leader != "c" || s.ContentEpoch != 2 || s.ContentRelease != rel(t, "1.1.0") {
		t.Errorf("got %s", s)
	}
	a.awaitState(protocol.Ineligible)
}

// A leader that is cut off stops leading when its lease ends, and then another node
// leads.
func TestElection_leaderCutOff(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{ttl: 3 * time.Second})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{ttl: 3 * time.Second})
	b.awaitState(protocol.Campaigning)
	a.proxy.Cut(etcdtest.Blackhole)
	b.awaitState(protocol.Leading)
	if got := a.election.State().Get(); got.Election == protocol.Leading {
		t.Errorf("b leads, and a still shows that it leads: %+v", got)
	}
	a.awaitState(protocol.Ineligible)
	a.proxy.Restore()
	a.awaitState(protocol.Campaigning)
}
