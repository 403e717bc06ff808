package fleet

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

func TestAdmin(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()[0])
	put(t, raw, keys.Node("corrupt"), []byte("\xff"))
	putNode(t, raw, node(t, "dead", "1.0.0"))
	putNode(t, raw, node(t, "alive", "1.0.0"))
	put(t, raw, keys.Presence("alive"), nil)

	if err := Remove(t.Context(), client, "alive"); !errors.Is(err, ErrAlive) {
		t.Errorf("remove a node that is alive: got %v", err)
	}
	if err := Remove(t.Context(), client, "none"); !errors.Is(err, ErrNoNode) {
		t.Errorf("remove a node without a record: got %v", err)
	}
	for _, id := range []protocol.NodeID{"dead", "corrupt"} {
		if err := Remove(t.Context(), client, id); err != nil {
			t.Errorf("remove %s: %v", id, err)
		}
	}
	if err := SetRoles(t.Context(), client, "none", RoleChange{}); !errors.Is(err, ErrNoNode) {
		t.Errorf("set roles of a node without a record: got %v", err)
	}
	want := node(t, "alive", "1.0.0")
	want.Roles = protocol.Roles{Worker: true, Consensus: true}
	if err := SetRoles(t.Context(), client, "alive", RoleChange{Roles: want.Roles}); err != nil {
		t.Fatal(err)
	}
	fleet, err := List(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if len(fleet.Records) != 1 || !fleet.Records[0].Alive || fleet.Revision == 0 {
		t.Fatalf("got %+v, want alive alone", fleet)
	}
	if diff := cmp.Diff(want, fleet.Records[0].Node); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Only the role is added. What this program cannot read stays as it is.
func TestGiveConsensus(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()[0])
	want := node(t, "a", "1.0.0")
	want.Roles = protocol.Roles{Worker: true}
	want.Serves = true
	putNode(t, raw, want)
	want.Roles.Consensus = true
	put(t, raw, keys.Node("corrupt"), []byte("\xff"))
	for range 2 {
		for _, id := range []protocol.NodeID{"a", "corrupt", "none"} {
			if err := GiveConsensus(t.Context(), client, id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	fleet, err := List(t.Context(), client)
	if err != nil || len(fleet.Records) != 2 || fleet.Records[1].Problem == "" {
		t.Fatalf("got %+v, %v, want the records of two nodes, one of them corrupt", fleet, err)
	}
	if diff := cmp.Diff(want, fleet.Records[0].Node); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// servingNode is a node whose gate may be open.
func servingNode(t *testing.T, id string) protocol.Node {
	n := node(t, id, "1.0.0")
	n.Serves = true
	return n
}

// mayServe reports whether leaders wait for a node because it may serve.
func mayServe(t *testing.T, client *etcd.Client, id protocol.NodeID) bool {
	t.Helper()
	f, err := List(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := f.Record(id)
	return r.MayServe()
}

// Whether a node is alive may change after it was read: then it is judged again.
func TestSetRoles_aliveMeanwhile(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()[0])
	worker := protocol.Roles{Worker: true}
	t.Run("the same roles: nothing is written", func(t *testing.T) {
		putNode(t, raw, servingNode(t, "same"))
		read := func() int64 {
			resp, err := raw.Get(t.Context(), keys.Node("same"))
			if err != nil || len(resp.Kvs) != 1 {
				t.Fatal(resp, err)
			}
			return resp.Kvs[0].ModRevision
		}
		before := read()
		if err := SetRoles(t.Context(), client, "same", RoleChange{Edit: func(now protocol.Roles) protocol.Roles { return now }}); err != nil || read() != before {
			t.Errorf("got %v, revision %d before, %d now", err, before, read())
		}
	})
	t.Run("the other one in service ends meanwhile", func(t *testing.T) {
		open := encodePresence(protocol.Presence{Ready: true, Reason: protocol.Ready}, time.Now())
		for _, id := range []string{"leaves", "stays"} {
			putNode(t, raw, servingNode(t, id))
			put(t, raw, keys.Presence(protocol.NodeID(id)), open)
		}
		asked := 0
		err := SetRoles(t.Context(), client, "leaves", RoleChange{Edit: func(protocol.Roles) protocol.Roles {
			if asked++; asked == 1 {
				if _, err := raw.Delete(t.Context(), keys.Presence("stays")); err != nil {
					t.Error(err)
				}
			}
			return worker
		}})
		if !errors.Is(err, ErrLastInService) || asked != 2 {
			t.Errorf("got %v, asked %d times, want ErrLastInService", err, asked)
		}
	})
	t.Run("not alive when it is read, alive when it is written", func(t *testing.T) {
		putNode(t, raw, servingNode(t, "returns"))
		asked := 0
		err := SetRoles(t.Context(), client, "returns", RoleChange{Stopped: true, Edit: func(protocol.Roles) protocol.Roles {
			if asked++; asked == 1 {
				put(t, raw, keys.Presence("returns"), nil)
			}
			return worker
		}})
		if !errors.Is(err, ErrAlive) || asked != 2 || !mayServe(t, client, "returns") {
			t.Errorf("got %v, asked %d times, want ErrAlive, and that leaders wait for it", err, asked)
		}
	})
	t.Run("alive when it is read, not alive when it is written", func(t *testing.T) {
		putNode(t, raw, servingNode(t, "ends"))
		put(t, raw, keys.Presence("ends"), nil)
		asked := 0
		err := SetRoles(t.Context(), client, "ends", RoleChange{Force: true, Edit: func(protocol.Roles) protocol.Roles {
			if asked++; asked == 1 {
				if _, err := raw.Delete(t.Context(), keys.Presence("ends")); err != nil {
					t.Error(err)
				}
			}
			return worker
		}})
		if !errors.Is(err, ErrNotAlive) || asked != 2 || !mayServe(t, client, "ends") {
			t.Errorf("got %v, asked %d times, want ErrNotAlive, and that leaders wait for it", err, asked)
		}
	})
}

// A node from which the controller role is taken may serve until its sidecar has
// registered without it. Whether that still happens is for people to say.
func TestSetRoles_takesTheControllerRole(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()[0])
	worker := protocol.Roles{Worker: true}
	putNode(t, raw, servingNode(t, "dead"))
	putNode(t, raw, servingNode(t, "alive"))
	put(t, raw, keys.Presence("alive"), nil)

	t.Run("alive: its sidecar does the rest", func(t *testing.T) {
		if err := SetRoles(t.Context(), client, "alive", RoleChange{Roles: worker, Stopped: true}); !errors.Is(err, ErrAlive) {
			t.Errorf("got %v, want ErrAlive", err)
		}
		if err := SetRoles(t.Context(), client, "alive", RoleChange{Roles: worker}); err != nil {
			t.Error(err)
		}
		if !mayServe(t, client, "alive") {
			t.Error("leaders no longer wait for a node whose gate may be open")
		}
	})
	t.Run("the last in service: only by force", func(t *testing.T) {
		putNode(t, raw, servingNode(t, "first"))
		putNode(t, raw, servingNode(t, "second"))
		open := encodePresence(protocol.Presence{Ready: true, Reason: protocol.Ready}, time.Now())
		put(t, raw, keys.Presence("first"), open)
		if err := SetRoles(t.Context(), client, "first", RoleChange{Roles: worker}); !errors.Is(err, ErrLastInService) || !mayServe(t, client, "first") {
			t.Errorf("got %v, want ErrLastInService", err)
		}
		if err := SetRoles(t.Context(), client, "first", RoleChange{Roles: protocol.Roles{Controller: true, Worker: true}}); err != nil {
			t.Errorf("it keeps the role: %v", err)
		}
		put(t, raw, keys.Presence("second"), open)
		if err := SetRoles(t.Context(), client, "first", RoleChange{Roles: worker}); err != nil {
			t.Errorf("another one serves: %v", err)
		}
		if err := SetRoles(t.Context(), client, "second", RoleChange{Roles: worker}); !errors.Is(err, ErrLastInService) {
			t.Errorf("got %v, want ErrLastInService", err)
		}
		if err := SetRoles(t.Context(), client, "second", RoleChange{Roles: worker, Force: true}); err != nil {
			t.Errorf("by force: %v", err)
		}
		for _, id := range []string{"first", "second"} {
			if _, err := raw.Delete(t.Context(), keys.Presence(protocol.NodeID(id))); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("not alive: only if it has stopped", func(t *testing.T) {
		if err := SetRoles(t.Context(), client, "dead", RoleChange{Roles: worker}); !errors.Is(err, ErrNotAlive) {
			t.Errorf("got %v, want ErrNotAlive", err)
		}
		if err := SetRoles(t.Context(), client, "dead", RoleChange{Roles: protocol.Roles{Controller: true, Worker: true}}); err != nil {
			t.Errorf("the controller role is not taken away: %v", err)
		}
		if err := SetRoles(t.Context(), client, "dead", RoleChange{Roles: worker, Stopped: true}); err != nil {
			t.Error(err)
		}
		if mayServe(t, client, "dead") {
			t.Error("leaders still wait for a node that has stopped")
		}
		if err := SetRoles(t.Context(), client, "dead", RoleChange{}); err != nil {
			t.Errorf("it has no controller role any more: %v", err)
		}
	})
	t.Run("stopped since the role was taken", func(t *testing.T) {
		if _, err := raw.Delete(t.Context(), keys.Presence("alive")); err != nil {
			t.Fatal(err)
		}
		if err := SetRoles(t.Context(), client, "alive", RoleChange{Roles: worker}); !errors.Is(err, ErrNotAlive) {
			t.Errorf("got %v, want ErrNotAlive", err)
		}
		if err := SetRoles(t.Context(), client, "alive", RoleChange{Roles: worker, Stopped: true}); err != nil {
			t.Error(err)
		}
		if mayServe(t, client, "alive") {
			t.Error("leaders still wait for a node that has stopped")
		}
	})
}

func TestAdoptStoreID(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()[0])
	adopt := func(t *testing.T, id string, want error) {
		t.Helper()
		if err := AdoptStoreID(t.Context(), client, id); !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
		if got := readStoreKey(t, client).ID; want == nil && got != id {
			t.Errorf("got %q, want %q", got, id)
		}
	}
	first, second := newStoreID(), newStoreID()
	adopt(t, first, nil)  // the key is missing
	adopt(t, second, nil) // no status
	put(t, raw, keys.Status(), []byte("\xff"))
	adopt(t, first, ErrGoverned) // a status, even if it is corrupt
	adopt(t, second, nil)        // nothing changes
	put(t, raw, keys.Store(), []byte("\xff"))
	adopt(t, first, nil) // the ID was lost
	if err := AdoptStoreID(t.Context(), client, "mine"); err == nil {
		t.Error("adopted an ID that is none")
	}
}
