package fleet

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

func TestRegistrar(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	r, local := registrarOf(t, newClient(t, server.Endpoints()...))
	first := await(t, r.Registration(), "the first registration", confirmed)
	rec := record(t, raw)
	if !rec.Node.Roles.Controller || rec.Revision != first.Revision || !first.Controller {
		t.Fatalf("got %+v at %+v", rec, first)
	}
	newer := func(than protocol.Registration) func(protocol.Registration) bool {
		return func(r protocol.Registration) bool { return r.Matches && r.Revision > than.Revision }
	}

	t.Run("the record is deleted: registers again", func(t *testing.T) {
		if _, err := raw.Delete(t.Context(), keys.Node("me")); err != nil {
			t.Fatal(err)
		}
		first = await(t, r.Registration(), "registered again", newer(first))
	})
	t.Run("the record is overwritten with garbage: registers again", func(t *testing.T) {
		put(t, raw, keys.Node("me"), []byte("\xff"))
		first = await(t, r.Registration(), "registered again", newer(first))
		if got := record(t, raw); got.Problem != "" || !got.Node.Roles.Controller {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("another release in the record: registers again", func(t *testing.T) {
		putNode(t, raw, node(t, "me", "9.0.0"))
		first = await(t, r.Registration(), "registered again", newer(first))
	})
	t.Run("a role taken away is not taken back, other roles are kept", func(t *testing.T) {
		n := record(t, raw).Node
		n.Roles = protocol.Roles{Worker: true}
		putNode(t, raw, n)
		first = await(t, r.Registration(), "registered without the role", newer(first))
		if got := record(t, raw).Node.Roles; first.Controller || got != (protocol.Roles{Worker: true}) {
			t.Errorf("got %+v, roles %+v", first, got)
		}
	})
	t.Run("a role given again is a new registration", func(t *testing.T) {
		n := record(t, raw).Node
		n.Roles.Controller = true
		at := putNode(t, raw, n)
		first = await(t, r.Registration(), "registered with the role", newer(first))
		if !first.Controller || first.Revision < at {
			t.Errorf("got %+v, the role came at %d", first, at)
		}
	})
	t.Run("another digest is corrected without a new registration", func(t *testing.T) {
		l := local.Get()
		l.Digest = "d2"
		local.Set(l)
		awaitRecord(t, raw, func(r protocol.Record) bool { return r.Node.Digest == "d2" })
		if got := r.Registration().Get(); got != first {
			t.Errorf("got %+v, want %+v still", got, first)
		}
	})
}

// A sidecar that has no presence, or lost it to another sidecar, does not write the
// record.
func TestRegistrar_withoutPresence(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()...)
	put(t, raw, keys.Presence("me"), encodePresence(protocol.Presence{Instance: "twin", MachineID: "m"}, time.Now()))
	lease := event.New(clientv3.NoLease)
	r := NewRegistrar(RegistrarConfig{
		Client: client, Presence: lease, BootID: "boot", Store: event.New(StoreKey{}), Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}}),
	})
	if err := r.replaceRecord(t.Context()); !errors.Is(err, errNoPresence) {
		t.Errorf("without a presence: got %v", err)
	}
	lease.Set(0x77)
	if err := r.replaceRecord(t.Context()); !errors.Is(err, etcd.ErrChanged) {
		t.Errorf("with a presence that is another's: got %v", err)
	}
	if resp, err := raw.Get(t.Context(), keys.Node("me")); err != nil || len(resp.Kvs) != 0 {
		t.Errorf("the record was written: %v, %v", resp.Kvs, err)
	}
}

// A record that does not exist is created with the roles that the node had last, once they
// are known.
func TestRegistrar_firstRoles(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	lease, err := raw.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Put(t.Context(), keys.Presence("me"), "", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	known := false
	r := NewRegistrar(RegistrarConfig{
		Client: newClient(t, server.Endpoints()...), Presence: event.New(lease.ID), BootID: "boot", Store: event.New(StoreKey{}), Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}}),
		First: func() (protocol.Roles, bool) { return protocol.Roles{Worker: true}, known },
	})
	for range 2 { // the second time it is corrupt
		known = false
		if err := r.replaceRecord(t.Context()); !errors.Is(err, errRoles) {
			t.Errorf("before the roles are known: got %v", err)
		}
		known = true
		if err := r.replaceRecord(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := record(t, raw).Node.Roles; got != (protocol.Roles{Worker: true}) {
			t.Errorf("got the roles %v", got.Names())
		}
		put(t, raw, keys.Node("me"), []byte("\xff"))
		r.last = protocol.Record{} // the next sidecar
	}
}

// The record is written only over the one that was judged.
func TestRegistrar_guardsItsWrite(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()...)
	lease, err := raw.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Put(t.Context(), keys.Presence("me"), "", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	r := NewRegistrar(RegistrarConfig{
		Client: client, Presence: event.New(lease.ID), BootID: "boot", Store: event.New(StoreKey{}), Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}}),
	})
	judged := putNode(t, raw, node(t, "me", "1.0.0"))
	people := node(t, "me", "1.0.0")
	people.Roles = protocol.Roles{Worker: true}
	changed := putNode(t, raw, people)
	if err := r.write(t.Context(), protocol.Roles{Controller: true}, protocol.Cordon{}, etcd.KV{ModRevision: judged}); !errors.Is(err, etcd.ErrChanged) {
		t.Errorf("got %v, want etcd.ErrChanged", err)
	}
	if got := record(t, raw); got.Revision != changed || got.Node.Roles != people.Roles {
		t.Errorf("the roles that people set were overwritten: %+v", got)
	}
}

// A registration waits until the kube-apiserver is the one that the bundle is for. The record
// of the release before stays.
func TestRegistrar_otherAPIServer(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()...)
	f := NewFollower(client)
	run(t, f.Run)
	presence := presenceOf(client, "i")
	run(t, presence.Run)
	before := putNode(t, raw, node(t, "me", "1.0.0"))
	other := event.New("another kube-apiserver runs")
	r := NewRegistrar(RegistrarConfig{
		Client: client, Presence: presence.Lease(), BootID: "boot", Fleet: f.Fleet(), Store: f.Store(), APIServer: other, Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}}),
	})
	await(t, presence.Lease(), "a presence", func(id clientv3.LeaseID) bool { return id != clientv3.NoLease })
	if err := r.replaceRecord(t.Context()); !errors.Is(err, errServices) {
		t.Errorf("beside another kube-apiserver: got %v", err)
	}
	run(t, r.Run)
	if got := record(t, raw); got.Revision != before {
		t.Errorf("the record was written: %+v", got)
	}
	other.Set("")
	await(t, r.Registration(), "registered", confirmed)
	if got := record(t, raw); got.Node.Version.String() != "1.1.0" {
		t.Errorf("got the record of %s", got.Node.Version)
	}
}
