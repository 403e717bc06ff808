package fleet

import (
	"testing"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// lateWrite lets etcd execute the next write of a key after something else has happened.
func lateWrite(t *testing.T, server *etcdtest.Server, key string, write func() error, meanwhile func()) {
	t.Helper()
	received, execute := server.DelayWrite(key)
	defer execute()
	ended := make(chan error, 1)
	go func() { ended <- write() }()
	select {
	case <-received:
	case err := <-ended:
		t.Fatalf("nothing was written: %v", err)
	}
	meanwhile()
	execute()
	if err := <-ended; err == nil {
		t.Error("a write counts as executed whose answer was lost")
	}
}

// The command of a turn begins again while people say that its work is done: the turn stays.
func TestDeclareTurnDone_commandBegins(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	putServing(t, raw, "a")
	putServing(t, raw, "b")
	if _, _, err := TakeTurn(t.Context(), client, turnOf("a"), nil, 0); err != nil {
		t.Fatal(err)
	}
	held := heldBy(t, client, "a")
	lateWrite(t, server, keys.Turn("a"), func() error { return DeclareTurnDone(t.Context(), client, held) }, func() {
		put(t, raw, keys.TurnRunning("a"), encodeTurnRequest(protocol.TurnRequest{Node: "a", By: held.By}))
	})
	if now := heldBy(t, client, "a"); now != held {
		t.Errorf("got %+v, want %+v", now, held)
	}
}

// A leader writes the first status while people give the store another ID: it keeps the one that the leader knows.
func TestAdoptStoreID_statusMeanwhile(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	first, second := newStoreID(), newStoreID()
	if err := AdoptStoreID(t.Context(), client, first); err != nil {
		t.Fatal(err)
	}
	lateWrite(t, server, keys.Store(), func() error { return AdoptStoreID(t.Context(), client, second) }, func() {
		put(t, raw, keys.Status(), []byte("x"))
	})
	if got := readStoreKey(t, client).ID; got != first {
		t.Errorf("got the ID %q, want %q", got, first)
	}
}

// Another node dies while a node takes its turn: it gets none.
func TestTakeTurn_otherNodeDies(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	putServing(t, raw, "a")
	putServing(t, raw, "b")
	take := func() error {
		_, _, err := TakeTurn(t.Context(), client, turnOf("a"), nil, 0)
		return err
	}
	lateWrite(t, server, keys.Turn("a"), take, func() {
		if _, err := raw.Delete(t.Context(), keys.Presence("b")); err != nil {
			t.Error(err)
		}
	})
	if f, err := List(t.Context(), client); err != nil || len(f.Turns.Held) > 0 {
		t.Errorf("got %+v, %v", f.Turns, err)
	}
}
