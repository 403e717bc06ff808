package election

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// A node of the older release brings its objects back while a newer one is alive, and the
// rollback ends when that one has gone back too.
func TestElection_rollback(t *testing.T) {
	w := newWorld(t)
	client := newClient(t, w.server.Addr())
	to := protocol.Rollback{To: rel(t, "1.0.0"), Since: time.Now(), Until: time.Now().Add(time.Hour)}
	if _, err := BeginRollback(t.Context(), client, RollbackRequest{Rollback: to}); !errors.Is(err, ErrNotRollable) {
		t.Fatalf("without a status: got %v", err)
	}
	b := w.start("b", "1.1.0", options{a: "1.1.0"})
	b.awaitStatus(protocol.Done, "1.1.0")
	if _, err := BeginRollback(t.Context(), client, RollbackRequest{Rollback: to}); err != nil {
		t.Fatal(err)
	}
	await(t, b.election.State(), "that the newer node makes way", func(s State) bool {
		return s.Election == protocol.Ineligible && s.Eligibility.Reason == protocol.RollingBack
	})
	a := w.start("a", "1.0.0", options{})
	a.awaitStatus(protocol.Done, "1.0.0")
	a.awaitState(protocol.Leading)
	b.stop()
	w.putRecord("b", "1.0.0")
	await(t, a.election.cfg.Fleet, "the end of the rollback", func(f protocol.Fleet) bool { return !f.Rollback.On() })
}

// The time of a rollback is over: the newer node leads again.
func TestElection_rollbackIsOver(t *testing.T) {
	w := newWorld(t)
	w.putStatus(doneAt(t, "1.1.0"))
	w.putRecord("b", "1.1.0")
	over := protocol.Rollback{To: rel(t, "1.0.0"), Until: time.Now().Add(-time.Second)}
	if _, err := BeginRollback(t.Context(), newClient(t, w.server.Addr()), RollbackRequest{Rollback: over}); err != nil {
		t.Fatal(err)
	}
	w.start("b", "1.1.0", options{}).awaitState(protocol.Leading)
}
