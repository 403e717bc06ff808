package fleet

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	if err := SetRoles(t.Context(), client, "none", protocol.Roles{}); !errors.Is(err, ErrNoNode) {
		t.Errorf("set roles of a node without a record: got %v", err)
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
