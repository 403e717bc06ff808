package fleet

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// expiringRegistrar runs presence and registrar of node "me", whose record expires
// after the given time.
func expiringRegistrar(t *testing.T, client *etcd.Client, after time.Duration) (*Registrar, *Presence) {
	t.Helper()
	f := NewFollower(client)
	run(t, f.Run)
	presence := presenceOf(client, "i")
	run(t, presence.Run)
	r := NewRegistrar(RegistrarConfig{
		Presence: presence.Lease(), Client: client, BootID: "boot", Fleet: f.Fleet(), Store: f.Store(), Trace: trace.ForTest(t), Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}, ExpireAfter: after}),
	})
	run(t, r.Run)
	return r, presence
}

// Etcd is unreachable for half of the expiry: the gate closes. Only a write of the
// record opens it again.
func TestRegistrar_closesWhenUnconfirmed(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	proxy := etcdtest.NewProxy(t, server.Addr())
	r, _ := expiringRegistrar(t, newClient(t, "http://"+proxy.Addr()), 2*time.Second)
	first := await(t, r.Registration(), "the first registration", confirmed)
	if got := record(t, raw).Node.ExpireAfter; got != 2*time.Second {
		t.Errorf("the record expires after %s", got)
	}

	proxy.Cut(etcdtest.Blackhole)
	overdue := await(t, r.Registration(), "overdue", func(r protocol.Registration) bool { return r.Overdue })
	if overdue.Matches {
		t.Errorf("got %+v, want one that is not confirmed", overdue)
	}
	at := put(t, raw, "/elsewhere", nil)
	proxy.Restore()
	again := await(t, r.Registration(), "registered again", confirmed)
	if again.Revision <= at || again.Revision <= first.Revision || again.Overdue {
		t.Errorf("got %+v, want a registration above revision %d", again, at)
	}
	if got := record(t, raw).Revision; got < again.Revision {
		t.Errorf("the record was last written at %d, the registration is of %d", got, again.Revision)
	}
}

// Etcd answers, but the presence is missing: that is no confirmation.
func TestRegistrar_closesWithoutPresence(t *testing.T) {
	server := etcdtest.New(t)
	client := newClient(t, server.Endpoints()...)
	f := NewFollower(client)
	run(t, f.Run)
	raw := server.Client(t)
	lease, err := raw.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Put(t.Context(), keys.Presence("me"), "", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	r := NewRegistrar(RegistrarConfig{
		Presence: event.New(lease.ID), Client: client, BootID: "boot", Fleet: f.Fleet(), Store: f.Store(), Trace: trace.ForTest(t), Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}, ExpireAfter: 2 * time.Second}),
	})
	run(t, r.Run)
	await(t, r.Registration(), "registered", confirmed)
	if _, err := raw.Delete(t.Context(), keys.Presence("me")); err != nil {
		t.Fatal(err)
	}
	await(t, r.Registration(), "overdue", func(r protocol.Registration) bool { return r.Overdue })
}

// A presence that was lost and written again counts only after the record was
// written. Otherwise a leader without a snapshot in between could not see it. The
// gate stays as it is.
func TestRegistrar_writesRecordAfterPresence(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	r, presence := expiringRegistrar(t, newClient(t, server.Endpoints()...), time.Minute)
	first := await(t, r.Registration(), "the first registration", confirmed)
	lease := presence.Lease().Get()
	if _, err := raw.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	await(t, presence.Lease(), "another presence", func(l clientv3.LeaseID) bool { return l != clientv3.NoLease && l != lease })
	resp, err := raw.Get(t.Context(), keys.Presence("me"))
	if err != nil || len(resp.Kvs) == 0 {
		t.Fatalf("%v, %v", resp, err)
	}
	awaitRecord(t, raw, func(r protocol.Record) bool { return r.Revision > resp.Kvs[0].CreateRevision })
	if got := r.Registration().Get(); got != first {
		t.Errorf("got %+v, want %+v still", got, first)
	}
}

// A sidecar keeps its own expiry, so a record with another one is repaired by a new
// registration.
func TestRegistrar_repairsExpiry(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	r, _ := expiringRegistrar(t, newClient(t, server.Endpoints()...), time.Minute)
	first := await(t, r.Registration(), "the first registration", confirmed)
	n := record(t, raw).Node
	n.ExpireAfter = time.Second
	at := putNode(t, raw, n)
	await(t, r.Registration(), "registered again", func(r protocol.Registration) bool {
		return r.Matches && r.Revision > first.Revision && r.Revision > at
	})
	if got := record(t, raw).Node.ExpireAfter; got != time.Minute {
		t.Errorf("the record expires after %s", got)
	}
}
