package election

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// A leader that runs writes the status again when another client has changed it.
func TestElection_statusLost(t *testing.T) {
	w := newWorld(t)
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepHold)
	for name, lose := range map[string]func(){
		"deleted":     func() { w.delete(keys.Status()) },
		"overwritten": func() { w.put(keys.Status(), []byte("\xff")) },
		"of another version": func() {
			w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.statusRevision() // after lose() it may be DONE again already
			lose()
			await(t, n.store.Observed(), "DONE again", func(o status.Observed) bool {
				return o.View.Revision > before && o.View.Status.State == protocol.Done && o.View.Status.Version.Release == rel(t, "1.0.0")
			})
		})
	}
}

// A status that was lost while no node led is rebuilt from the mark first.
func TestElection_statusRebuilt(t *testing.T) {
	w := newWorld(t)
	w.api.setMark(protocol.Mark{Kind: protocol.MarkPresent, FirstDone: true, HighestEpoch: 8, Entries: []protocol.Content{
		{Release: rel(t, "0.9.0"), Digest: "x", Epoch: 7},
		{Release: rel(t, "1.0.0"), Digest: "y", Epoch: 8, Constraints: protocol.Constraints{MinAPIServer: rel(t, "0.9.0")}},
	}})
	released := make(chan struct{})
	w.api.expect("reconcile", blocksUntil(released))
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepReconcile)
	s := w.readStatus()
	if s.State != protocol.Working || s.Version.Release != rel(t, "0.9.0") || s.MinCompatible != rel(t, "0.9.0") || s.ContentEpoch != 9 {
		t.Errorf("got %s", s)
	}
	close(released)
	n.awaitStatus(protocol.Done, "1.0.0")
}

// Another leader has finished the first reconciliation before this one began it:
// this one reads the mark again, and rebuilds the status from it.
func TestElection_notTheFirst(t *testing.T) {
	w := newWorld(t)
	released := make(chan struct{})
	w.api.expect("reconcile", blocksUntil(released))
	n := w.start("a", "1.0.0", options{})
	n.awaitStep(protocol.StepReconcile)
	w.api.setMark(protocol.Mark{Kind: protocol.MarkPresent, FirstDone: true, HighestEpoch: 1, Entries: []protocol.Content{
		{Release: rel(t, "0.9.0"), Digest: "x", Epoch: 1},
	}})
	close(released)
	if s := n.awaitStatus(protocol.Done, "1.0.0"); s.ContentEpoch != 2 {
		t.Errorf("got %s", s)
	}
	want := "a survey, a reconcile 1.0.0@1, a survey, a reconcile 1.0.0@2"
	if got := w.api.jobs(); got != want {
		t.Errorf("calls: got %q, want %q", got, want)
	}
}

// What a newer program added to the status survives the writes of a leader that does not know it,
// also the last one, with which it resigns.
func TestElection_statusOfNewerProgram(t *testing.T) {
	w := newWorld(t)
	value, err := status.Encode(crashed(t), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const added = "\xfa\x01\x01x" // field 31
	w.put(keys.Status(), append(value, added...))
	n := w.start("a", "1.1.0", options{drainTime: time.Nanosecond})
	n.awaitStep(protocol.StepHold)
	if s := w.readStatus(); s.Version.Release != rel(t, "1.1.0") {
		t.Errorf("got %s, want that the leader wrote it", s)
	}
	w.wantUnknown(added)
	n.stop()
	w.wantDrained(true)
	w.wantUnknown(added)
}

// wantUnknown checks the fields in the status that this program does not know.
func (w *world) wantUnknown(want status.Unknown) {
	w.Helper()
	resp, err := w.raw.Get(w.Context(), keys.Status())
	if err != nil || len(resp.Kvs) == 0 {
		w.Fatalf("read the status: got %+v, %v", resp, err)
	}
	kv := etcd.NewKV(resp.Kvs[0])
	if got := status.UnknownIn(&kv); got != want {
		w.Errorf("got the unknown fields %q in the status, want %q", got, want)
	}
}
