package fleet

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
)

func putServing(t *testing.T, raw *clientv3.Client, id string) {
	t.Helper()
	putNode(t, raw, node(t, id, "1.0.0"))
	put(t, raw, keys.Presence(protocol.NodeID(id)), encodePresence(protocol.Presence{Instance: id, Ready: true, Reason: protocol.Ready}, time.Now()))
}

func cordonFor(message string) protocol.Cordon {
	return protocol.Cordon{Since: time.Now().UTC(), Message: message}
}

func TestSetCordon(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	set := func(id protocol.NodeID, c protocol.Cordon, force bool) error {
		_, err := SetCordon(t.Context(), client, id, CordonChange{Cordon: c, Force: force})
		return err
	}
	if err := set("a", cordonFor("x"), false); !errors.Is(err, ErrNoNode) {
		t.Errorf("no record: got %v", err)
	}
	putServing(t, raw, "a")
	putNode(t, raw, node(t, "dead", "1.0.0"))
	put(t, raw, keys.Node("corrupt"), []byte("\xff"))
	if err := set("corrupt", cordonFor("x"), true); err == nil || !strings.Contains(err.Error(), "corrupt") {
		t.Errorf("corrupt: got %v", err)
	}
	if err := set("a", cordonFor("x"), false); !errors.Is(err, ErrLastInService) {
		t.Errorf("the last node in service: got %v", err)
	}
	if err := set("dead", cordonFor("x"), false); err != nil {
		t.Errorf("a node that does not serve anyway: got %v", err)
	}
	putServing(t, raw, "b")
	was := get(t, raw, "a")
	want := protocol.Cordon{Since: time.Unix(1, 5).UTC(), Until: time.Unix(9, 0).UTC(), Message: "etcd upgrade"}
	if err := set("a", want, false); err != nil {
		t.Fatal(err)
	}
	now := get(t, raw, "a")
	was.Node.Cordon = want
	if now.Node != was.Node {
		t.Errorf("got %+v, want %+v", now.Node, was.Node)
	}
	if err := set("b", cordonFor("x"), false); !errors.Is(err, ErrLastInService) {
		t.Errorf("the other one has a cordon: got %v", err)
	}
	if err := set("b", cordonFor("x"), true); err != nil {
		t.Errorf("forced: got %v", err)
	}
	if err := set("a", protocol.Cordon{}, false); err != nil || get(t, raw, "a").Node.Cordon.On() {
		t.Errorf("got %v, and %+v", err, get(t, raw, "a").Node)
	}
}

// Of two nodes that are taken out of service at the same time, each because of the
// other, one stays.
func TestSetCordon_bothAtOnce(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), clientWithin(t, time.Minute, server.Endpoints()...)
	for range 30 {
		putServing(t, raw, "a")
		putServing(t, raw, "b")
		var both sync.WaitGroup
		errs := make([]error, 2)
		for i, id := range []protocol.NodeID{"a", "b"} {
			both.Go(func() { _, errs[i] = SetCordon(t.Context(), client, id, CordonChange{Cordon: cordonFor("x")}) })
		}
		both.Wait()
		refused := 0
		for _, err := range errs {
			if errors.Is(err, ErrLastInService) {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if refused != 1 {
			t.Fatalf("%d were refused, want 1: %v", refused, errs)
		}
	}
}

// A cordon and a change of roles at the same moment: neither is lost.
func TestSetCordon_besideOtherChange(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), clientWithin(t, time.Minute, server.Endpoints()...)
	for range 50 {
		putServing(t, raw, "a")
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := SetCordon(t.Context(), client, "a", CordonChange{Cordon: cordonFor("x"), Force: true}); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			change := RoleChange{Force: true, Edit: func(r protocol.Roles) protocol.Roles { r.Worker = true; return r }}
			if err := SetRoles(t.Context(), client, "a", change); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if got := get(t, raw, "a").Node; !got.Cordon.On() || !got.Roles.Worker {
			t.Fatalf("got %+v", got)
		}
	}
}

func get(t *testing.T, raw *clientv3.Client, id protocol.NodeID) protocol.Record {
	t.Helper()
	f, err := List(t.Context(), newClient(t, raw.Endpoints()...))
	if err != nil {
		t.Fatal(err)
	}
	r, found := f.Record(id)
	if !found {
		t.Fatalf("no record of %s", id)
	}
	return r
}

// The registrar publishes a cordon without a new registration, keeps it when it
// registers again, and removes it when its time is over.
func TestRegistrar_cordon(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	r, _ := registrarOf(t, newClient(t, server.Endpoints()...))
	first := await(t, r.Registration(), "the first registration", confirmed)
	set := func(c protocol.Cordon) {
		t.Helper()
		if _, err := SetCordon(t.Context(), client, "me", CordonChange{Cordon: c, Force: true}); err != nil {
			t.Fatal(err)
		}
	}

	forever := cordonFor("etcd upgrade")
	set(forever)
	cordoned := await(t, r.Registration(), "the cordon", func(r protocol.Registration) bool { return r.Cordon == forever })
	if !cordoned.Matches || cordoned.Revision != record(t, raw).Revision || record(t, raw).Writes != 2 {
		t.Errorf("got %+v after %+v, and the record %+v: want the same registration, with the revision of the cordon", cordoned, first, record(t, raw))
	}

	put(t, raw, keys.Node("me"), []byte("\xff"))
	again := await(t, r.Registration(), "registered again", func(r protocol.Registration) bool { return r.Matches && r.Revision > cordoned.Revision })
	if again.Cordon != forever || record(t, raw).Node.Cordon != forever {
		t.Errorf("the cordon did not survive a record that was damaged: %+v, %+v", again, record(t, raw).Node)
	}

	if over := r.CordonOver().Get(); over != (CordonOver{}) {
		t.Errorf("got %+v before any cordon was over", over)
	}
	soon := protocol.Cordon{Since: time.Now().UTC(), Until: time.Now().Add(100 * time.Millisecond).UTC()}
	set(soon)
	await(t, r.Registration(), "the end of the cordon", func(r protocol.Registration) bool { return r.Matches && !r.Cordon.On() })
	if record(t, raw).Node.Cordon.On() {
		t.Errorf("the cordon is over, and still in the record: %+v", record(t, raw).Node)
	}
	set(forever)
	await(t, r.Registration(), "the cordon", func(r protocol.Registration) bool { return r.Cordon == forever })
	set(protocol.Cordon{})
	await(t, r.Registration(), "no cordon", func(r protocol.Registration) bool { return r.Matches && !r.Cordon.On() })
}

// A client may write times that make no sense, and newer programs
// write more than this one knows.
func TestCordonOf(t *testing.T) {
	bad := &timestamppb.Timestamp{Nanos: -1}
	for name, c := range map[string]*lockstepv1.Cordon{
		"empty": {}, "bad times": {Since: bad, Until: bad}, "a long message": {Message: strings.Repeat("x", 1000)},
	} {
		got := cordonOf(c)
		if !got.On() || !got.Until.IsZero() || len(got.Message) > protocol.MaxCordonMessage {
			t.Errorf("%s: got %+v, want a cordon without an end", name, got)
		}
	}
	unknown := []byte{0xfa, 0x01, 0x01, 'x'} // field 31
	written := &lockstepv1.Cordon{Message: "x"}
	written.ProtoReflect().SetUnknown(unknown)
	value := lockstepv1.Marshal(&lockstepv1.Node{Id: "n", Cordon: written})
	n, problem := decodeNode("n", value)
	var out lockstepv1.Node
	if err := proto.Unmarshal(encodeOver(value, n), &out); err != nil || problem != "" {
		t.Fatal(err, problem)
	}
	if string(out.GetCordon().ProtoReflect().GetUnknown()) != string(unknown) {
		t.Error("a registration removes what a newer program wrote into the cordon")
	}
}
