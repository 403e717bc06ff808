package fleet

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

const prefix = "/lockstep/"

var keys = keyspace.Under(prefix)

func newClient(t *testing.T, endpoints ...string) *etcd.Client {
	t.Helper()
	c, err := etcd.NewClient(etcd.Config{Endpoints: endpoints, Prefix: prefix, RequestTimeout: 2 * time.Second, Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// run runs a worker until the test ends, and waits for it.
func run(t *testing.T, worker func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := worker(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("worker ended: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// await returns the first value that is as wanted.
func await[T any](t *testing.T, v *event.Value[T], what string, ok func(T) bool) T {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		val, changed := v.Load()
		if ok(val) {
			return val
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: not seen in time; last: %+v", what, val)
		}
	}
}

func rel(t *testing.T, s string) protocol.Release {
	t.Helper()
	r, err := semver.ParseRelease(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func node(t *testing.T, id, release string) protocol.Node {
	t.Helper()
	return protocol.Node{
		ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true},
		Version: protocol.Version{Release: rel(t, release)},
	}
}

// put writes a key and returns the revision of the write.
func put(t *testing.T, c *clientv3.Client, key string, value []byte) int64 {
	t.Helper()
	resp, err := c.Put(t.Context(), key, string(value))
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func putNode(t *testing.T, c *clientv3.Client, n protocol.Node) int64 {
	t.Helper()
	return put(t, c, keys.Node(n.ID), Encode(n))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFollower(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	for id, release := range map[string]string{"a1": "0.0.2", "a2": "0.0.2", "a3": "0.0.2", "b": "0.0.3"} {
		putNode(t, raw, node(t, id, release))
	}
	revision := putNode(t, raw, node(t, "c", "10000.0.0"))

	f := NewFollower(newClient(t, server.Endpoints()...))
	run(t, f.Run)
	local := rel(t, "1.0.0")
	want := func(minimum string, revision int64) {
		t.Helper()
		fleet := await(t, f.Fleet(), "revision", func(f protocol.Fleet) bool { return f.Revision >= revision })
		got := protocol.Summarize(fleet, local)
		if got.Min != rel(t, minimum) || got.Max != rel(t, "10000.0.0") || got.Revision != revision {
			t.Errorf("got %+v, want min %s, max 10000.0.0, revision %d", got, minimum, revision)
		}
	}
	want("0.0.2", revision)

	// a1 loses the role, a2 is deleted, a3 goes on: only then is b the lowest.
	a1 := node(t, "a1", "0.0.2")
	a1.Roles = protocol.Roles{Worker: true}
	want("0.0.2", putNode(t, raw, a1))
	deleted, err := raw.Delete(t.Context(), keys.Node("a2"))
	if err != nil {
		t.Fatal(err)
	}
	want("0.0.2", deleted.Header.Revision)
	want("0.0.3", putNode(t, raw, node(t, "a3", "0.0.4")))
}

func TestFollower_badRecords(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	empty, err := proto.Marshal(&lockstepv1.Node{Id: "empty"})
	if err != nil {
		t.Fatal(err)
	}
	noVersion, err := proto.Marshal(&lockstepv1.Node{
		Id:    "noversion",
		Roles: &lockstepv1.Roles{KubernetesController: &lockstepv1.KubernetesController{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	negative, err := proto.Marshal(&lockstepv1.Node{
		Id:     "negative",
		Roles:  &lockstepv1.Roles{KubernetesController: &lockstepv1.KubernetesController{}},
		Status: &lockstepv1.NodeStatus{Version: &lockstepv1.Version{Release: &lockstepv1.Release{Major: -1}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, raw, keys.Node("garbage"), []byte("\xff\xfe garbage"))
	put(t, raw, keys.Node("wrongkey"), Encode(node(t, "other", "1.0.0")))
	put(t, raw, keys.Node("empty"), empty)
	put(t, raw, keys.Node("noversion"), noVersion)
	put(t, raw, keys.Node("negative"), negative)
	put(t, raw, keys.Node("novalue"), nil)
	put(t, raw, keys.Presence("garbage"), []byte("\xff garbage"))
	revision := putNode(t, raw, node(t, "well", "1.0.0"))

	f := NewFollower(newClient(t, server.Endpoints()...))
	run(t, f.Run)
	fleet := await(t, f.Fleet(), "revision", func(f protocol.Fleet) bool { return f.Revision >= revision })
	corrupt := map[protocol.NodeID]bool{}
	for _, r := range fleet.Records {
		corrupt[r.ID] = r.Problem != ""
	}
	want := map[protocol.NodeID]bool{
		"garbage": true, "wrongkey": true, "noversion": true, "negative": true, "novalue": true,
		"empty": false, "well": false, // a record without the controller role needs no version
	}
	if diff := cmp.Diff(want, corrupt); diff != "" {
		t.Errorf("which records are corrupt (-want +got):\n%s", diff)
	}
	if r, _ := fleet.Record("garbage"); !r.Alive {
		t.Error("a presence that cannot be decoded still says that the node is alive")
	}
	if s := protocol.Summarize(fleet, rel(t, "2.0.0")); s.Controllers != 1 || s.Corrupt != 5 {
		t.Errorf("got %+v", s)
	}
}

// The watch is cut off, the store compacted past it: no change is missed.
func TestFollower_compactedWhileCutOff(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	proxy := etcdtest.NewProxy(t, server.Addr())
	putNode(t, raw, node(t, "a", "1.0.0"))
	f := NewFollower(newClient(t, "http://"+proxy.Addr()))
	run(t, f.Run)
	await(t, f.Fleet(), "the first record", func(f protocol.Fleet) bool { return len(f.Records) == 1 })

	proxy.Cut(etcdtest.Reset)
	putNode(t, raw, node(t, "b", "1.0.0"))
	if _, err := raw.Delete(t.Context(), keys.Node("a")); err != nil {
		t.Fatal(err)
	}
	revision := putNode(t, raw, node(t, "b", "1.1.0"))
	if _, err := raw.Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	proxy.Restore()
	fleet := await(t, f.Fleet(), "the change", func(f protocol.Fleet) bool { return f.Revision >= revision })
	if len(fleet.Records) != 1 || fleet.Records[0].ID != "b" || fleet.Records[0].Node.Version.Release != rel(t, "1.1.0") {
		t.Errorf("got %+v, want b of 1.1.0 alone", fleet.Records)
	}
}

func discard() *slog.Logger {
	return slog.New(slog.DiscardHandler)
}

// presenceOf returns a presence of node "me".
func presenceOf(client *etcd.Client, instance string) *Presence {
	return NewPresence(PresenceConfig{
		Client: client, Node: "me", Instance: instance, MachineID: "m", TTL: 3 * time.Second,
		Says: event.New(Says{}), Log: discard(),
	})
}

// registrarOf runs a registrar of node "me" of release 1.1.0.
func registrarOf(t *testing.T, client *etcd.Client) (*Registrar, *event.Value[protocol.Local]) {
	t.Helper()
	f := NewFollower(client)
	run(t, f.Run)
	local := event.New(protocol.Local{
		ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}, Digest: "d1",
		Constraints: protocol.Constraints{MinReconciler: rel(t, "1.0.0")},
	})
	presence := presenceOf(client, "i")
	run(t, presence.Run)
	r := NewRegistrar(RegistrarConfig{
		Presence: presence.Lease(), Client: client, Local: local, Address: "http://127.0.0.1:1", BootID: "boot", Fleet: f.Fleet(), Log: discard(),
	})
	run(t, r.Run)
	return r, local
}

func confirmed(r protocol.Registration) bool { return r.Confirmed }

// record returns the own record as it stands in etcd.
func record(t *testing.T, raw *clientv3.Client) protocol.Record {
	t.Helper()
	resp, err := raw.Get(t.Context(), keys.Node("me"))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		t.Fatal("no record")
	}
	return decodeRecord("me", etcd.NewKV(resp.Kvs[0]))
}

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
		return func(r protocol.Registration) bool { return r.Confirmed && r.Revision > than.Revision }
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

// awaitRecord watches the own record until it is as wanted.
func awaitRecord(t *testing.T, raw *clientv3.Client, ok func(protocol.Record) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range raw.Watch(ctx, keys.Node("me"), clientv3.WithRev(1)) {
		if ok(record(t, raw)) {
			return
		}
	}
	t.Fatalf("the record did not become as wanted: %+v", record(t, raw))
}

// An etcd restored from a backup takes the record with it: the sidecar
// registers again.
func TestRegistrar_restoredEtcd(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	for range 20 {
		put(t, raw, "/filler", nil)
	}
	client := newClient(t, server.Endpoints()...)
	r, _ := registrarOf(t, client)
	first := await(t, r.Registration(), "the first registration", confirmed)

	other, err := etcdtest.Start(etcdtest.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	addr := server.Addr()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	// An empty store on the same address: its revision is far below.
	fresh, err := etcdtest.Start(etcdtest.Config{Dir: t.TempDir(), Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fresh.Close(); err != nil {
			t.Error(err)
		}
	})
	check(t, client)
	await(t, r.Registration(), "registered in the new store", func(r protocol.Registration) bool {
		return r.Confirmed && r.Revision < first.Revision
	})
}

// check makes linearizable reads, as a session does, until one succeeds.
func check(t *testing.T, client *etcd.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		if err := client.Check(ctx); err == nil {
			return
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

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
		t.Errorf("remove a node that is not there: got %v", err)
	}
	for _, id := range []protocol.NodeID{"dead", "corrupt"} {
		if err := Remove(t.Context(), client, id); err != nil {
			t.Errorf("remove %s: %v", id, err)
		}
	}
	if err := SetRoles(t.Context(), client, "none", protocol.Roles{}); !errors.Is(err, ErrNoNode) {
		t.Errorf("roles of a node that is not there: got %v", err)
	}
	want := node(t, "alive", "1.0.0")
	want.Roles = protocol.Roles{Worker: true, Consensus: true}
	if err := SetRoles(t.Context(), client, "alive", want.Roles); err != nil {
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

// Fields of a later version of this program survive a change of the roles.
func TestSetRoles_keepsUnknownFields(t *testing.T) {
	value, err := proto.Marshal(&lockstepv1.Node{Id: "n", Status: &lockstepv1.NodeStatus{FenceAfter: durationpb.New(time.Minute)}})
	if err != nil {
		t.Fatal(err)
	}
	unknown := []byte{0xfa, 0x01, 0x01, 'x'} // field 31
	got, err := withRoles("n", append(value, unknown...), protocol.Roles{Controller: true})
	if err != nil {
		t.Fatal(err)
	}
	var n lockstepv1.Node
	if err := proto.Unmarshal(got, &n); err != nil {
		t.Fatal(err)
	}
	if string(n.ProtoReflect().GetUnknown()) != string(unknown) || n.GetStatus().GetFenceAfter().AsDuration() != time.Minute || n.GetRoles().GetKubernetesController() == nil {
		t.Errorf("got %v", &n)
	}
}

// A sidecar without the presence, or whose presence is another's by now, does
// not write the record, whatever that says.
func TestRegistrar_withoutPresence(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()...)
	put(t, raw, keys.Presence("me"), encodePresence(protocol.Presence{Instance: "twin", MachineID: "m"}, time.Now()))
	lease := event.New(clientv3.NoLease)
	r := NewRegistrar(RegistrarConfig{
		Client: client, Presence: lease, BootID: "boot", Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}}),
	})
	if err := r.registerOnce(t.Context()); !errors.Is(err, errNoPresence) {
		t.Errorf("without a presence: got %v", err)
	}
	lease.Set(0x77)
	if err := r.registerOnce(t.Context()); !errors.Is(err, errChanged) {
		t.Errorf("with a presence that is another's: got %v", err)
	}
	if resp, err := raw.Get(t.Context(), keys.Node("me")); err != nil || len(resp.Kvs) != 0 {
		t.Errorf("the record was written: %v, %v", resp.Kvs, err)
	}
}

func TestPresence_replacedOnThisMachine(t *testing.T) {
	server := etcdtest.New(t)
	older, newer := presenceOf(newClient(t, server.Endpoints()...), "older"), presenceOf(newClient(t, server.Endpoints()...), "newer")
	ended := make(chan error, 1)
	go func() { ended <- older.Run(t.Context()) }()
	has := func(lease clientv3.LeaseID) bool { return lease != clientv3.NoLease }
	await(t, older.Lease(), "the older's presence", has)
	run(t, newer.Run)
	var duplicate *DuplicateError
	if err := <-ended; !errors.As(err, &duplicate) || duplicate.Newcomer {
		t.Errorf("the older ended with %v", err)
	}
	if has(older.Lease().Get()) || !has(await(t, newer.Lease(), "the newer's presence", has)) {
		t.Error("the presence is not the newer's alone")
	}
}
