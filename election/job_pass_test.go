package election

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockstep-dev/lockstep/protocol"
)

// A change that does not concern what a running pass has to apply does not stop it.
func TestElection_passGoesOn(t *testing.T) {
	w := newWorld(t)
	released := make(chan struct{})
	w.api.expect("reconcile", blocksUntil(released))
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepReconcile)
	for i := range 5 {
		id := protocol.NodeID(fmt.Sprint("n", i))
		w.put(keys.Presence(id), nil)
		w.putRecord(string(id), "1.0.0")
		await(t, n.election.cfg.Fleet, "the record", func(f protocol.Fleet) bool {
			r, _ := f.Record(id)
			return r.Alive
		})
	}
	close(released)
	n.awaitStatus(protocol.Done, "1.0.0")
	if got, want := w.api.jobs(), "a survey, a reconcile 1.0.0@1"; got != want {
		t.Errorf("calls: got %q, want %q", got, want)
	}
}

// A pass is stopped when it may not go on: a status that people wrote admits a node
// that is not compatible with what the pass applies.
func TestElection_passIsStopped(t *testing.T) {
	w := newWorld(t)
	w.putRecord("old", "0.9.0")
	shutsOut := doneAt(t, "1.0.0")
	w.putStatus(shutsOut)
	w.api.expect("reconcile", blocksUntil(make(chan struct{})))
	n := w.start("a", "1.0.0", options{a: "1.0.0"})
	w.api.awaitCalls(t, "reconcile", 1)
	admits := shutsOut
	admits.MinCompatible = rel(t, "0.9.0")
	w.putStatus(admits)
	await(t, n.election.State(), "no pass", func(s State) bool { return s.Step.Kind == protocol.StepAwait && !s.Working })
	if n := w.api.count(cancelled); n != 1 {
		t.Errorf("%d passes were stopped, want 1", n)
	}
}

// A pass that fails again and again for the same reason is a warning once.
func TestLeadership_warnsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newYieldWorld(t)
		w.l.e.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		w.api.expect("reconcile", failsWith(errRefused))
		w.untilYield()
		if n := strings.Count(log.String(), "pass failed"); n != 1 || w.api.count("reconcile") < 5 {
			t.Errorf("got %d warnings of %d passes, want one:\n%s", n, w.api.count("reconcile"), &log)
		}
	})
}
