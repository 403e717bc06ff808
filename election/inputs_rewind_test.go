package election

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A store that goes back ends the term: what the leader has counted and done belongs
// to another history of the store.
func TestLeadership_storeWentBack(t *testing.T) {
	key := keys.Leader(1)
	w := &world{T: t, api: newAPI(t)}
	epoch := w.startOver("")
	for range 10 {
		w.put("/elsewhere", nil)
	}
	client := newClient(t, w.server.Addr())
	e := New(Config{Client: client, Local: event.New(protocol.Local{ID: "a"}), Applier: applier{w.api, "a"}})
	l := e.newLeadership(nil, key, epoch)
	l.beginRound()
	if _, err := l.gather(t.Context()); err != nil {
		t.Fatal(err)
	}

	w.server.Stop()
	if same := w.startOver(w.server.Addr()); same != epoch {
		t.Fatalf("the key has the create revision %d, want %d, so that only the revision shows the restore", same, epoch)
	}
	var err error
	for range 100 {
		l.beginRound()
		if _, err = l.gather(t.Context()); errors.Is(err, errWentBack) {
			return
		}
		backoff.Sleep(t.Context(), etcdPause)
	}
	t.Errorf("got %v, want it noticed that the store went back", err)
}

// A backup is made while a leader works, and restored after DONE, under the same
// leader, whose key and lease are in the backup. The leader must not write DONE
// because of a pass of the lost history. Its next term waits for requests of the
// leaders that the backup does not know, and only that one.
func TestElection_termEndsWithItsStore(t *testing.T) {
	data, backup := t.TempDir(), t.TempDir()+"/backup"
	server, err := etcdtest.Start(etcdtest.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, server: server, raw: server.Client(t), api: newAPI(t)}
	w.putStatus(protocol.Status{
		State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}, Leader: "x", Epoch: 1, DrainedEpoch: 1, Digest: "d0.9.0",
		ContentRelease: rel(t, "0.9.0"), ContentEpoch: 3,
	})
	released := make(chan struct{})
	w.api.expect("reconcile", blocksUntil(released))
	n := w.start("a", "1.0.0", options{ttl: time.Minute, drainTime: time.Minute})
	w.api.awaitCalls(t, "reconcile", 1)
	server.Stop()
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	close(released)
	n.awaitStatus(protocol.Done, "1.0.0")
	n.awaitStep(protocol.StepHold)
	for range 20 {
		w.put("/elsewhere", nil)
	}
	until(t, "the client knows the newest revision", func() bool {
		_ = n.election.cfg.Client.Check(t.Context())
		return n.election.cfg.Client.Contact().Get().Connected
	})

	again := make(chan struct{})
	w.api.expect("reconcile", blocksUntil(again))
	passes, addr := w.api.count("reconcile"), server.Addr()
	server.Stop()
	restored, err := etcdtest.Start(etcdtest.Config{Dir: backup, Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.stop()
		if err := restored.Close(); err != nil {
			t.Error(err)
		}
	})
	w.api.awaitCalls(t, "reconcile", passes+1)
	if s := w.readStatus(); s.State != protocol.Working {
		t.Errorf("got %s before a pass was made in the restored store", s)
	}
	w.wantQuiet(true)
	close(again)
	n.awaitStatus(protocol.Done, "1.0.0")
	if n.election.isRestored(w.view()) {
		t.Error("the status was written after the restore, and counts as restored")
	}
}

// until waits for a condition that has no event of its own.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(limit) {
			t.Fatalf("%s: not observed in time", what)
		}
		backoff.Sleep(t.Context(), 10*time.Millisecond)
	}
}

// startOver starts an etcd at addr with nothing in it except a leader's key and the
// record of a dead node. It returns the epoch of that leader.
func (w *world) startOver(addr string) (epoch int64) {
	w.Helper()
	server, err := etcdtest.Start(etcdtest.Config{Addr: addr})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := server.Close(); err != nil {
			w.Error(err)
		}
	})
	w.server, w.raw = server, server.Client(w.T)
	epoch = w.put(keys.Leader(1), []byte("a"))
	w.putExpiringRecord("dead", "0.9.0", time.Minute)
	return epoch
}
