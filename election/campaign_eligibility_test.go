package election

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// A node leads only while no newer controller is alive, without a restart.
func TestElection_newerIsAlive(t *testing.T) {
	w := newWorld(t)
	w.putRecord("newer", "10000.0.0")
	w.put(keys.Presence("newer"), nil)
	n := w.start("a", "1.0.0", options{})
	await(t, n.election.State(), "ineligible", func(s State) bool { return s.Eligibility.Reason == protocol.NewerAlive })

	// It dies, and a campaigns at once: the record alone keeps no node back while
	// the content is not of that release.
	w.delete(keys.Presence("newer"))
	n.awaitStatus(protocol.Done, "1.0.0")
	n.awaitStep(protocol.StepHold)

	// It is alive again, and a resigns at once.
	w.put(keys.Presence("newer"), nil)
	n.awaitState(protocol.Ineligible)
	before := w.api.jobs()
	w.delete(keys.Status())
	await(t, n.store.Observed(), "no status", func(o status.Observed) bool { return o.View.Kind == protocol.StatusAbsent })
	if after := w.api.jobs(); after != before {
		t.Errorf("calls of the API while a newer node is alive: got %q after %q", after, before)
	}
}

// A leader whose node is taken out of service resigns, and leads no more until the cordon
// is removed.
func TestElection_cordoned(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{})
	b.awaitState(protocol.Campaigning)
	set := func(c protocol.Cordon) {
		t.Helper()
		if _, err := fleet.SetCordon(t.Context(), a.election.cfg.Client, "a", fleet.CordonChange{Cordon: c, Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	set(protocol.Cordon{Since: time.Now().UTC(), Message: "maintenance"})
	b.awaitState(protocol.Leading)
	await(t, a.election.State(), "ineligible", func(s State) bool { return s.Eligibility.Reason == protocol.Cordoned })
	set(protocol.Cordon{})
	a.awaitState(protocol.Campaigning)
}

// A candidate that loses the role leaves the queue; a leader that loses it resigns.
func TestElection_losesRole(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{})
	b.awaitState(protocol.Campaigning)
	setRoles := func(id protocol.NodeID, roles protocol.Roles) {
		t.Helper()
		if err := fleet.SetRoles(t.Context(), b.election.cfg.Client, id, fleet.RoleChange{Roles: roles}); err != nil {
			t.Fatal(err)
		}
	}

	setRoles("b", protocol.Roles{})
	await(t, b.election.State(), "ineligible", func(s State) bool { return s.Eligibility.Reason == protocol.NotController })
	await(t, a.election.queue, "a alone", func(l etcd.Listing) bool { return len(l.KVs) == 1 })

	setRoles("b", protocol.Roles{Controller: true})
	b.awaitState(protocol.Campaigning)
	setRoles("a", protocol.Roles{})
	b.awaitState(protocol.Leading)
}
