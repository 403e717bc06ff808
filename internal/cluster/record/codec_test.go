package record

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
)

var (
	keys = keyspace.Under("/lockstep")
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

func TestCluster(t *testing.T) {
	want := Cluster{ID: "5c6cd9e5-43b1-4b1f-8a0f-1b0e0f6f8f3a", EtcdClusterID: 1 << 63, CA: pki.Hash{1, 2}, Created: noon}
	got, err := DecodeCluster(EncodeCluster(want))
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for name, value := range map[string][]byte{
		"no message": {0xff}, "empty": {}, "no ID": EncodeCluster(Cluster{CA: pki.Hash{1}}),
	} {
		if _, err := DecodeCluster(value); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
}

func TestMember(t *testing.T) {
	for _, want := range []Member{
		{
			ID: 0xa1, Node: "a", Address: "10.0.0.1", PeerURL: "https://10.0.0.1:8089", ClientURL: "https://10.0.0.1:8088", JoinURL: "https://10.0.0.1:8087",
			Key: pki.Hash{3}, Serial: "ab01", Added: noon, Leaving: true, Removed: noon.Add(time.Hour),
		},
		{ID: 1, Node: "b"},
	} {
		got, err := DecodeMember(keys.ClusterMember(want.ID), EncodeMember(want))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	valid := EncodeMember(Member{Node: "a"})
	for name, kv := range map[string]struct {
		key   string
		value []byte
	}{
		"no message":     {keys.ClusterMember(1), []byte{0xff}},
		"empty":          {keys.ClusterMember(1), nil},
		"no node":        {keys.ClusterMember(1), EncodeMember(Member{})},
		"another key":    {keys.ClusterMembers() + "x", valid},
		"no ID in a key": {keys.ClusterMembers(), valid},
	} {
		if _, err := DecodeMember(kv.key, kv.value); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
}

func TestEncodeLearner(t *testing.T) {
	var got lockstepv1.ClusterLearner
	err := proto.Unmarshal(EncodeLearner(Member{ID: 0xa1, Node: "a", Added: noon}), &got)
	if err != nil || got.GetNode() != "a" || !got.GetAddedAt().AsTime().Equal(noon) {
		t.Errorf("got %v, %v", &got, err)
	}
}
