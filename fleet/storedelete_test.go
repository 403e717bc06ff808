package fleet

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// storeKeys are one key of each part of a store, without those of sidecars that run.
var storeKeys = []string{keys.Node("a"), keys.Node("b"), keys.Duplicate("a"), keys.Store(), keys.Status()}

// memberKeys are those of an etcd that the sidecars run themselves.
var memberKeys = []string{keys.Cluster(), keys.ClusterMember(1), keys.ClusterLearner(2), keys.RemovedMember(3), keys.ClusterLock(), keys.JoinToken("x")}

// otherKeys are near a store, and not of it.
var otherKeys = []string{"/lockstep/kubernetes/reconciler/status2", "/lockstep/store/x", "/lockstep/tenant-7/nodes/a", "/lockstep/tenant-7/store", "/lockstep2/nodes/a", "/registry/nodes/a"}

func putAll(t *testing.T, raw *clientv3.Client, names ...[]string) {
	t.Helper()
	for _, key := range slices.Concat(names...) {
		put(t, raw, key, nil)
	}
}

// wantKeys requires that etcd has exactly these keys.
func wantKeys(t *testing.T, raw *clientv3.Client, names ...[]string) {
	t.Helper()
	resp, err := raw.Get(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kv := range resp.Kvs {
		got = append(got, string(kv.Key))
	}
	want := slices.Concat(names...)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestDeleteStore(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	id := newStoreID()
	putAll(t, raw, storeKeys, memberKeys, otherKeys)
	put(t, raw, keys.Store(), encodeStoreID(id))

	alive := []string{keys.Presence("b"), keys.Leader(7)}
	put(t, raw, alive[0], nil)
	put(t, raw, alive[1], []byte("c"))
	found, err := DeleteStore(t.Context(), client, StoreDeletion{})
	inUse, is := errors.AsType[*StoreInUseError](err)
	if !is || !slices.Equal(inUse.Alive, []protocol.NodeID{"b", "c"}) || found.Count() != 13 {
		t.Errorf("while sidecars are alive: got %+v, %v", found, err)
	}
	wantKeys(t, raw, storeKeys, memberKeys, otherKeys, alive)

	for _, key := range alive {
		if _, err := raw.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	want := StoreContents{StoreID: id, Others: 4, Example: otherKeys[0], Parts: []StorePart{
		{Key: keys.Nodes(), Count: 2, Nodes: []protocol.NodeID{"a", "b"}},
		{Key: "/lockstep/duplicates/", Count: 1}, {Key: keys.Store(), Count: 1}, {Key: keys.Status(), Count: 1},
		{Key: keys.Cluster(), Count: 1}, {Key: keys.ClusterMembers(), Count: 1}, {Key: keys.ClusterLearners(), Count: 1},
		{Key: keys.RemovedMembers(), Count: 1}, {Key: keys.ClusterLock(), Count: 1}, {Key: keys.JoinTokens(), Count: 1},
	}}
	for _, dry := range []bool{true, false} {
		found, err = DeleteStore(t.Context(), client, StoreDeletion{DryRun: dry})
		if diff := cmp.Diff(want, found, cmpopts.IgnoreUnexported(StoreContents{})); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if dry {
			wantKeys(t, raw, storeKeys, memberKeys, otherKeys)
		}
	}
	wantKeys(t, raw, otherKeys)
	found, err = DeleteStore(t.Context(), client, StoreDeletion{})
	if err != nil || found.Count() != 0 || found.Others != 4 {
		t.Errorf("an empty store: got %+v, %v", found, err)
	}
}

func TestDeleteStore_statusOnly(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	putAll(t, raw, storeKeys, memberKeys, otherKeys)
	found, err := DeleteStore(t.Context(), client, StoreDeletion{StatusOnly: true})
	if err != nil || found.Count() != 1 || found.Parts[0].Key != keys.Status() {
		t.Errorf("got %+v, %v", found, err)
	}
	rest := slices.DeleteFunc(slices.Clone(storeKeys), func(key string) bool { return key == keys.Status() })
	wantKeys(t, raw, rest, memberKeys, otherKeys)
}

func TestDeleteStore_force(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	putAll(t, raw, storeKeys, otherKeys, []string{keys.Presence("a"), keys.Leader(7)})
	found, err := DeleteStore(t.Context(), client, StoreDeletion{Force: true})
	if err != nil || found.Count() != 7 || !slices.Contains(found.Alive, "a") {
		t.Errorf("got %+v, %v", found, err)
	}
	wantKeys(t, raw, otherKeys)
}

// The members of the etcd that answers go on, so their keys are kept. Keys of members
// that were copied from another etcd, as by a restore, are of no use.
func TestDeleteStore_ownEtcd(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	putAll(t, raw, storeKeys, memberKeys)
	members, err := raw.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	own := members.Header.ClusterId
	found, err := DeleteStore(t.Context(), client, StoreDeletion{EtcdCluster: own})
	if err != nil || found.Members != int64(len(memberKeys)) || found.Others != 0 {
		t.Errorf("got %+v, %v", found, err)
	}
	wantKeys(t, raw, memberKeys)
	if found, err := DeleteStore(t.Context(), client, StoreDeletion{EtcdCluster: own + 1}); err != nil || found.Members != 0 {
		t.Errorf("of another etcd: got %+v, %v", found, err)
	}
	wantKeys(t, raw)
}

// Nothing is deleted that was written after the store was read, nor if a sidecar has
// started since.
func TestDeleteStore_changed(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()...)
	for i, written := range []string{keys.Presence("a"), keys.Leader(7), keys.Node("new"), keys.Node("a"), keys.Status()} {
		t.Run(strconv.Itoa(i)+" "+written, func(t *testing.T) {
			if _, err := raw.Delete(t.Context(), "/", clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
			putAll(t, raw, storeKeys)
			found, err := readContents(t.Context(), client, StoreDeletion{})
			if err != nil {
				t.Fatal(err)
			}
			put(t, raw, written, []byte("x"))
			if err := found.delete(t.Context(), client); !errors.Is(err, etcd.ErrChanged) {
				t.Errorf("got %v, want ErrChanged", err)
			}
			if !slices.Contains(storeKeys, written) {
				wantKeys(t, raw, storeKeys, []string{written})
			} else {
				wantKeys(t, raw, storeKeys)
			}
		})
	}
}
