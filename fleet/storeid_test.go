package fleet

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

func TestValidStoreID(t *testing.T) {
	for id, want := range map[string]bool{
		newStoreID():                         true,
		"5f6c1e0d9a7b43c28f15e6d0b2a49c71":   true,
		"5F6C1E0D9A7B43C28F15E6D0B2A49C71":   false,
		"5f6c1e0d9a7b43c28f15e6d0b2a49c71ab": false,
		"5f6c1e0d9a7b43c28f15e6d0b2a49c7":    false,
		"xx6c1e0d9a7b43c28f15e6d0b2a49c71":   false,
		"":                                   false,
	} {
		if got := ValidStoreID(id); got != want {
			t.Errorf("ValidStoreID(%q): got %v, want %v", id, got, want)
		}
	}
}

func TestDecodeStoreKey(t *testing.T) {
	id := newStoreID()
	l := etcd.Listing{At: etcd.At{Revision: 9}, KVs: []*etcd.KV{
		{Key: keys.Store(), Value: encodeStoreID(id), ModRevision: 7},
		{Key: keys.Store() + "/more", Value: encodeStoreID(newStoreID()), ModRevision: 8},
	}}
	if got, want := decodeStoreKey(keys.Store(), l), (StoreKey{ID: id, Revision: 7, At: l.At}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, value := range [][]byte{nil, []byte("\xff"), encodeStoreID("mine")} {
		l.KVs[0].Value = value
		if got, want := decodeStoreKey(keys.Store(), l), (StoreKey{Revision: 7, At: l.At}); got != want {
			t.Errorf("%q: got %+v, want %+v", value, got, want)
		}
	}
}

// The first registration gives the store its ID. Later ones leave it. While a sidecar
// runs that has seen the ID, it writes the same one again.
func TestStoreID(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()...)
	r, _ := registrarOf(t, client)
	first := await(t, r.Registration(), "the first registration", confirmed)
	key := await(t, r.cfg.Store, "an ID", func(k StoreKey) bool { return k.ID != "" })
	if key.Revision != first.Revision {
		t.Errorf("the ID was written at revision %d, the record at %d: not in one transaction", key.Revision, first.Revision)
	}

	t.Run("a later registration leaves it", func(t *testing.T) {
		if _, err := raw.Delete(t.Context(), keys.Node("me")); err != nil {
			t.Fatal(err)
		}
		await(t, r.Registration(), "registered again", func(again protocol.Registration) bool { return again.Matches && again.Revision > first.Revision })
		if got := readStoreKey(t, client); got.ID != key.ID || got.Revision != key.Revision {
			t.Errorf("got %+v, want %+v", got, key)
		}
	})
	t.Run("deleted: written again", func(t *testing.T) {
		resp, err := raw.Delete(t.Context(), keys.Store())
		if err != nil {
			t.Fatal(err)
		}
		again := await(t, r.cfg.Store, "an ID", func(k StoreKey) bool { return k.ID != "" && k.Revision > resp.Header.Revision })
		if again.ID != key.ID {
			t.Errorf("got %q, want %q", again.ID, key.ID)
		}
	})
	t.Run("damaged: written again", func(t *testing.T) {
		at := put(t, raw, keys.Store(), []byte("\xff"))
		again := await(t, r.cfg.Store, "an ID", func(k StoreKey) bool { return k.ID != "" && k.Revision > at })
		if again.ID != key.ID {
			t.Errorf("got %q, want %q", again.ID, key.ID)
		}
	})
	t.Run("everything deleted: the same ID", func(t *testing.T) {
		resp, err := raw.Delete(t.Context(), prefix, clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		again := await(t, r.cfg.Store, "an ID", func(k StoreKey) bool { return k.ID != "" && k.Revision > resp.Header.Revision })
		if again.ID != key.ID {
			t.Errorf("got %q, want %q", again.ID, key.ID)
		}
		// The ID can be there before the record is.
		await(t, r.Registration(), "registered again", func(now protocol.Registration) bool {
			return now.Matches && now.Revision > resp.Header.Revision
		})
	})
	t.Run("another ID, as people adopt it, is followed", func(t *testing.T) {
		other := newStoreID()
		put(t, raw, keys.Store(), encodeStoreID(other))
		await(t, r.cfg.Store, "the other ID", func(k StoreKey) bool { return k.ID == other })
		// The registrar has seen it too when it has registered since. It restores the last ID that
		// it has seen.
		now := r.Registration().Get()
		if _, err := raw.Delete(t.Context(), keys.Node("me")); err != nil {
			t.Fatal(err)
		}
		await(t, r.Registration(), "registered again", func(again protocol.Registration) bool { return again.Matches && again.Revision > now.Revision })
		resp, err := raw.Delete(t.Context(), keys.Store())
		if err != nil {
			t.Fatal(err)
		}
		again := await(t, r.cfg.Store, "an ID", func(k StoreKey) bool { return k.ID != "" && k.Revision > resp.Header.Revision })
		if again.ID != other {
			t.Errorf("got %q, want %q", again.ID, other)
		}
	})
}

// An empty etcd at the same address is another store: it gets an ID of its own,
// although a sidecar runs that has seen another one.
func TestStoreID_emptyStore(t *testing.T) {
	server := etcdtest.New(t)
	for range 20 {
		put(t, server.Client(t), "/filler", nil)
	}
	client := newClient(t, server.Endpoints()...)
	r, _ := registrarOf(t, client)
	await(t, r.Registration(), "the first registration", confirmed)
	key := await(t, r.cfg.Store, "an ID", func(k StoreKey) bool { return k.ID != "" })

	server.Replace(t, etcdtest.Config{})
	check(t, client)
	again := await(t, r.cfg.Store, "an ID in the new store", func(k StoreKey) bool { return k.ID != "" && k.At.Rewinds > 0 })
	if again.ID == key.ID {
		t.Errorf("the new store got the ID of the old one")
	}
}

// Without its presence a sidecar does not know the store, and writes no ID into it.
func TestStoreID_needsPresence(t *testing.T) {
	server := etcdtest.New(t)
	client := newClient(t, server.Endpoints()...)
	lease := event.New(clientv3.NoLease)
	r := NewRegistrar(RegistrarConfig{
		Client: client, Presence: lease, Store: event.New(StoreKey{}), Log: discard(),
		Local: event.New(protocol.Local{ID: "me"}),
	})
	if err := r.restoreStoreID(t.Context(), newStoreID(), 0); !errors.Is(err, errNoPresence) {
		t.Errorf("without a presence: got %v", err)
	}
	lease.Set(0x77)
	if err := r.restoreStoreID(t.Context(), newStoreID(), 0); !errors.Is(err, etcd.ErrChanged) {
		t.Errorf("with a presence that is not in this store: got %v", err)
	}
	if got := readStoreKey(t, client); got.Revision != 0 {
		t.Errorf("the ID was written: %+v", got)
	}
}

func readStoreKey(t *testing.T, client *etcd.Client) StoreKey {
	t.Helper()
	resp, err := client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpGet(keys.Store())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return decodeStoreKey(keys.Store(), etcd.NewListing(resp, 0))
}
