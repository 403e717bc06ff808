package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
)

// promising runs presence and registrar of node "me" whose record promises
// after.
func promising(t *testing.T, client *etcd.Client, after time.Duration) (*Registrar, *Presence) {
	t.Helper()
	f := NewFollower(client)
	run(t, f.Run)
	presence := presenceOf(client, "i")
	run(t, presence.Run)
	r := NewRegistrar(RegistrarConfig{
		Presence: presence.Lease(), Client: client, BootID: "boot", Fleet: f.Fleet(), Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}, FenceAfter: after}),
	})
	run(t, r.Run)
	return r, presence
}

func TestEncode_fenceAfter(t *testing.T) {
	want := node(t, "n", "1.0.0")
	want.FenceAfter = 90 * time.Second
	got, problem := decodeNode("n", Encode(want))
	if diff := cmp.Diff(want, got); diff != "" || problem != "" {
		t.Errorf("problem %q (-want +got):\n%s", problem, diff)
	}
	for _, bad := range []*durationpb.Duration{nil, durationpb.New(0), durationpb.New(-time.Second), {Seconds: 1, Nanos: -1}} {
		value, err := proto.Marshal(&lockstepv1.Node{Id: "n", Status: &lockstepv1.NodeStatus{FenceAfter: bad}})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := decodeNode("n", value); got.FenceAfter != 0 {
			t.Errorf("%v: got %s, want a record that promises nothing", bad, got.FenceAfter)
		}
	}
}

// Etcd is out of reach for half of what the record promises: fenced. It comes
// back only by a write of the record.
func TestRegistrar_fences(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	proxy := etcdtest.NewProxy(t, server.Addr())
	r, _ := promising(t, newClient(t, "http://"+proxy.Addr()), 2*time.Second)
	first := await(t, r.Registration(), "the first registration", confirmed)
	if got := record(t, raw).Node.FenceAfter; got != 2*time.Second {
		t.Errorf("the record promises %s", got)
	}

	proxy.Cut(etcdtest.Blackhole)
	fenced := await(t, r.Registration(), "fenced", func(r protocol.Registration) bool { return r.Fenced })
	if fenced.Confirmed {
		t.Errorf("got %+v, want one that is not confirmed", fenced)
	}
	at := put(t, raw, "/elsewhere", nil)
	proxy.Restore()
	again := await(t, r.Registration(), "registered again", confirmed)
	if again.Revision <= at || again.Revision <= first.Revision || again.Fenced {
		t.Errorf("got %+v, want a registration above revision %d", again, at)
	}
	if got := record(t, raw).Revision; got < again.Revision {
		t.Errorf("the record was last written at %d, the registration is of %d", got, again.Revision)
	}
}

// Etcd answers, and the presence is gone: that is no confirmation.
func TestRegistrar_fencesWithoutPresence(t *testing.T) {
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
		Presence: event.New(lease.ID), Client: client, BootID: "boot", Fleet: f.Fleet(), Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}, FenceAfter: 2 * time.Second}),
	})
	run(t, r.Run)
	await(t, r.Registration(), "registered", confirmed)
	if _, err := raw.Delete(t.Context(), keys.Presence("me")); err != nil {
		t.Fatal(err)
	}
	await(t, r.Registration(), "fenced", func(r protocol.Registration) bool { return r.Fenced })
}

// A presence that went and came back counts once the record was written after
// it: only so can a leader that did not look in between tell. The gate is left
// alone.
func TestRegistrar_announcesItsPresence(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	r, presence := promising(t, newClient(t, server.Endpoints()...), time.Minute)
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

// What a record promises is what its sidecar keeps: another promise is put right
// with a new registration.
func TestRegistrar_anotherPromise(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	r, _ := promising(t, newClient(t, server.Endpoints()...), time.Minute)
	first := await(t, r.Registration(), "the first registration", confirmed)
	n := record(t, raw).Node
	n.FenceAfter = time.Second
	at := putNode(t, raw, n)
	await(t, r.Registration(), "registered again", func(r protocol.Registration) bool {
		return r.Confirmed && r.Revision > first.Revision && r.Revision > at
	})
	if got := record(t, raw).Node.FenceAfter; got != time.Minute {
		t.Errorf("the record promises %s", got)
	}
}
