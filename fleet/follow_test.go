package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
)

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
		if got.Min != rel(t, minimum) || got.Max != rel(t, "10000.0.0") || fleet.Revision != revision {
			t.Errorf("got %+v, want min %s, max 10000.0.0, revision %d", got, minimum, revision)
		}
	}
	want("0.0.2", revision)

	// b is the lowest only after a1 lost the role, a2 was deleted and a3 was upgraded.
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

// A fleet is published once each of its parts was listed: without its rollback or turns it would be another one.
func TestFollower_completeOnly(t *testing.T) {
	f := &Follower{fleet: event.New(protocol.Fleet{})}
	for _, part := range []func(*observed){
		func(o *observed) { o.nodes.Revision, o.nodesKnown = 7, true },
		func(o *observed) { o.presencesKnown = true },
		func(o *observed) { o.rollbackKnown = true },
		func(o *observed) { o.turnsKnown = true },
	} {
		if f.fleet.Get().Revision != 0 {
			t.Fatalf("published with %+v", f.seen)
		}
		f.observe(part)
	}
	if f.fleet.Get().Revision != 7 {
		t.Errorf("a complete fleet is not published: %+v", f.seen)
	}
}
