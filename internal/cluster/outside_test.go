package cluster

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A node that leaves uses the other members from when its removal is allowed: its own one ends
// while services use it. If the removal is refused, nothing changes.
func TestOutside_removeUsesOthers(t *testing.T) {
	f := newPatientFlow(t, func(string) {}, limit) // a removal is not tried again here, however late etcd answers
	create(t, f)
	for _, id := range []protocol.NodeID{"a", "b"} { // neither is a member by its roles
		put := clientv3.OpPut(keyspace.Under(f.client.Prefix()).Node(id), string(fleet.Encode(protocol.Node{ID: id, Roles: protocol.Roles{Worker: true}})))
		if _, err := f.client.Txn(t.Context(), nil, []clientv3.Op{put}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := (realOutside{&f.parts}).remove(t.Context(), f.marker.MemberID); !errors.Is(err, quorum.ErrRefused) || !f.shared.used {
		t.Errorf("the last voter: got %v, its own member is used: %t", err, f.shared.used)
	}
	if err := (realOutside{&f.parts}).remove(t.Context(), ""); !errors.Is(err, quorum.ErrRefused) {
		t.Errorf("the same, before its ID is in the marker: got %v", err)
	}
	b := record.Member{Node: "b", Address: "127.0.0.2", PeerURL: "https://127.0.0.2:1", ClientURL: "https://127.0.0.2:2"}
	added, err := quorum.Add(t.Context(), f.client, quorum.Addition{Node: b})
	if err != nil {
		t.Fatal(err)
	}
	if err := (realOutside{&f.parts}).remove(t.Context(), keyspace.MemberID(added.ID)); err != nil || f.shared.used {
		t.Errorf("one that may leave: got %v, its own member is used: %t", err, f.shared.used)
	}
	if err := (realOutside{&f.parts}).remove(t.Context(), keyspace.MemberID(added.ID)); err != nil {
		t.Errorf("again, in case the answer was lost: got %v", err)
	}
	f.shared.follow(f.dir.Layout, datadir.Marker{Phase: datadir.Member}) // a sidecar that starts while its node leaves
	if err := (realOutside{&f.parts}).forget(t.Context(), added.ID); err != nil || f.shared.used {
		t.Errorf("its records: got %v, its own member is used: %t", err, f.shared.used)
	}
}
