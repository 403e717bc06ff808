package status

import (
	"errors"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestStore_Write(t *testing.T) {
	w := newWorld(t)
	const leader = prefix + "kubernetes/reconciler/leader/1"
	resp, err := w.raw.Put(t.Context(), leader, "me")
	if err != nil {
		t.Fatal(err)
	}
	epoch := resp.Header.Revision
	resp, err = w.raw.Put(t.Context(), keys.Node("n"), "x")
	if err != nil {
		t.Fatal(err)
	}
	fleet := resp.Header.Revision
	st := Value{Status: protocol.Status{State: protocol.Done, Epoch: epoch}}
	want := func(name string, g protocol.Guard, ok bool) {
		t.Helper()
		err := w.store.Write(t.Context(), leader, st, g)
		if ok && err != nil || !ok && !errors.Is(err, ErrGuard) {
			t.Errorf("%s: got %v, want it written: %t", name, err, ok)
		}
	}
	want("another leader", protocol.Guard{Epoch: epoch + 1}, false)
	want("the status exists although it was missing", protocol.Guard{Epoch: epoch, StatusRevision: 1}, false)
	want("a node record was modified since", protocol.Guard{Epoch: epoch, FleetRevision: fleet - 1}, false)
	want("all holds", protocol.Guard{Epoch: epoch, FleetRevision: fleet}, true)
	want("the status has changed", protocol.Guard{Epoch: epoch, FleetRevision: fleet}, false)
	now, err := w.store.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want("over the status that was read", protocol.Guard{Epoch: epoch, StatusRevision: now.View.Revision}, true)
	if _, err := w.raw.Delete(t.Context(), leader); err != nil {
		t.Fatal(err)
	}
	now, err = w.store.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want("the leader's key was deleted", protocol.Guard{Epoch: epoch, StatusRevision: now.View.Revision}, false)
}

// A key that only begins with the status key is not the status.
func TestStore_longerKeys(t *testing.T) {
	w := newWorld(t)
	resp, err := w.raw.Put(t.Context(), keys.Status()+"-backup", "\xff")
	if err != nil {
		t.Fatal(err)
	}
	for {
		o, changed := w.store.Observed().Load()
		if o.At.Revision >= resp.Header.Revision {
			if o.View.Kind != protocol.StatusAbsent {
				t.Errorf("got %+v", o)
			}
			return
		}
		<-changed
	}
}
