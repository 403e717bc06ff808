package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
)

func TestEncode_expireAfter(t *testing.T) {
	want := node(t, "n", "1.0.0")
	want.ExpireAfter, want.Serves = 90*time.Second, true
	got, problem := decodeNode("n", Encode(want))
	if diff := cmp.Diff(want, got); diff != "" || problem != "" {
		t.Errorf("problem %q (-want +got):\n%s", problem, diff)
	}
	for _, bad := range []*durationpb.Duration{nil, durationpb.New(0), durationpb.New(-time.Second), {Seconds: 1, Nanos: -1}} {
		value, err := proto.Marshal(&lockstepv1.Node{Id: "n", Status: &lockstepv1.NodeStatus{ExpireAfter: bad}})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := decodeNode("n", value); got.ExpireAfter != 0 {
			t.Errorf("%v: got %s, want a record that promises nothing", bad, got.ExpireAfter)
		}
	}
}

// What a newer program added to a record and to its roles survives a registration and
// a change of the roles. What it added to the status was about that program.
func TestEncode_keepsUnknownFields(t *testing.T) {
	unknown := []byte{0xfa, 0x01, 0x01, 'x'} // field 31
	written := &lockstepv1.Node{
		Id:     "n",
		Roles:  &lockstepv1.Roles{KubernetesController: &lockstepv1.KubernetesController{}, ConsensusMember: &lockstepv1.ConsensusMember{}},
		Status: &lockstepv1.NodeStatus{Version: &lockstepv1.Version{Release: &lockstepv1.Release{Major: 2}}, ExpireAfter: durationpb.New(time.Minute)},
	}
	for _, m := range []proto.Message{written, written.Roles, written.Roles.KubernetesController, written.Status} {
		m.ProtoReflect().SetUnknown(unknown)
	}
	value := lockstepv1.Marshal(written)
	wantKept := func(t *testing.T, got []byte, status []byte) {
		t.Helper()
		var n lockstepv1.Node
		if err := proto.Unmarshal(got, &n); err != nil {
			t.Fatal(err)
		}
		for name, m := range map[string]proto.Message{"record": &n, "roles": n.GetRoles(), "role": n.GetRoles().GetKubernetesController()} {
			if string(m.ProtoReflect().GetUnknown()) != string(unknown) {
				t.Errorf("the %s has no unknown fields any more", name)
			}
		}
		if string(n.GetStatus().ProtoReflect().GetUnknown()) != string(status) {
			t.Errorf("the status has the unknown fields %q, want %q", n.GetStatus().ProtoReflect().GetUnknown(), status)
		}
	}
	t.Run("roles are set", func(t *testing.T) {
		got, _, err := withRoles("n", value, RoleChange{Roles: protocol.Roles{Controller: true, Worker: true}})
		if err != nil {
			t.Fatal(err)
		}
		wantKept(t, got, unknown)
		if n, problem := decodeNode("n", got); problem != "" || n.ExpireAfter != time.Minute || n.Roles != (protocol.Roles{Controller: true, Worker: true}) {
			t.Errorf("got %+v %s", n, problem)
		}
	})
	t.Run("an older program registers", func(t *testing.T) {
		want := node(t, "n", "1.0.0")
		got := encodeOver(value, want)
		wantKept(t, got, nil)
		if n, problem := decodeNode("n", got); problem != "" || n != want {
			t.Errorf("got %+v %s, want %+v", n, problem, want)
		}
	})
	t.Run("over a corrupt record, or that of another node", func(t *testing.T) {
		want := node(t, "m", "1.0.0")
		for _, previous := range [][]byte{[]byte("\xff"), value, nil} {
			if got := encodeOver(previous, want); string(got) != string(Encode(want)) {
				t.Errorf("over %q: got %q", previous, got)
			}
		}
	})
}

// What a presence reports survives it. Texts from other programs are cut, and made
// valid UTF-8: a presence that cannot be written would look like a dead node.
func TestPresence_warnings(t *testing.T) {
	since := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	want := protocol.Presence{
		Instance: "i", Reason: protocol.Ready, Election: protocol.Withdrawn, Host: "h", Address: "http://h:1",
		APIServerDown: true, APIServer: "v1.36.3", Services: "sha256:00",
		Warnings: []protocol.Warning{{Reason: protocol.APIRefused, Message: "m", Since: since}, {Subject: "cp-9", Message: "n"}},
	}
	if diff := cmp.Diff(want, decodePresence(encodePresence(want, since))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	many := protocol.Presence{Host: "\xff"}
	for range protocol.MaxWarnings + 1 {
		many.Warnings = append(many.Warnings, protocol.Warning{Message: strings.Repeat("ä", protocol.MaxWarningMessage) + "\xff"})
	}
	got := decodePresence(encodePresence(many, since))
	if len(got.Warnings) != protocol.MaxWarnings || len(got.Warnings[0].Message) > protocol.MaxWarningMessage || !strings.HasSuffix(got.Warnings[0].Message, "…") {
		t.Errorf("got %d warnings, the first of %d bytes", len(got.Warnings), len(got.Warnings[0].Message))
	}
}
