package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
)

func TestEncode_fenceAfter(t *testing.T) {
	want := node(t, "n", "1.0.0")
	want.FenceAfter, want.Serves = 90*time.Second, true
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
