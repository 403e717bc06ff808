package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// follow runs Follow until the test ends and returns what it reports.
func follow(t *testing.T, client *etcd.Client, prefix string) *event.Value[etcd.Listing] {
	t.Helper()
	out := event.New(etcd.Listing{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := client.Follow(ctx, prefix, out.Set); !errors.Is(err, context.Canceled) {
			t.Errorf("Follow ended: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return out
}

func TestFollow_revisions(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	listed := follow(t, newClient(t, server.Endpoints()[0]), "/p/nodes/")
	await(t, listed, func(l etcd.Listing) bool { return l.Revision != 0 })
	for i := range 5 {
		if _, err := raw.Put(t.Context(), "/elsewhere", ""); err != nil {
			t.Fatal(err)
		}
		resp, err := raw.Put(t.Context(), fmt.Sprintf("/p/nodes/%d", i), "v")
		if err != nil {
			t.Fatal(err)
		}
		l := await(t, listed, func(l etcd.Listing) bool { return len(l.KVs) == i+1 })
		if l.Revision != resp.Header.Revision || l.KVs[i].ModRevision != l.Revision || l.KVs[i].Version != 1 {
			t.Errorf("got %+v, want revision %d", l, resp.Header.Revision)
		}
	}
	resp, err := raw.Delete(t.Context(), "/p/nodes/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if l := await(t, listed, func(l etcd.Listing) bool { return len(l.KVs) == 0 }); l.Revision != resp.Header.Revision {
		t.Errorf("got %+v, want revision %d", l, resp.Header.Revision)
	}
}

// The first change after the listing is reported too: the watch begins at the next
// revision.
func TestFollow_firstChange(t *testing.T) {
	server := etcdtest.New(t)
	listed := follow(t, newClient(t, server.Endpoints()[0]), "/p/nodes/")
	await(t, listed, func(l etcd.Listing) bool { return l.Revision != 0 })
	if _, err := server.Client(t).Put(t.Context(), "/p/nodes/a", "v"); err != nil {
		t.Fatal(err)
	}
	await(t, listed, func(l etcd.Listing) bool { return len(l.KVs) == 1 })
}

// What is written between the listing and the watch is reported too, although the watch begins at the
// newest revision.
func TestFollow_writtenBetween(t *testing.T) {
	server := etcdtest.New(t)
	raw, client := server.Client(t), newClient(t, server.Endpoints()[0])
	for _, key := range []string{"/p/deleted", "/p/changed"} {
		if _, err := raw.Put(t.Context(), key, "1"); err != nil {
			t.Fatal(err)
		}
	}
	var before etcd.Listing
	seen := event.New(etcd.Listing{})
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		_ = client.Follow(ctx, "/p/", func(l etcd.Listing) { // its error is that ctx ended
			if before.Revision == 0 { // it has listed, and opens no watch before this returns
				before = l
				_, err := raw.Txn(ctx).Then(
					clientv3.OpPut("/p/created", "2"), clientv3.OpPut("/p/changed", "2"), clientv3.OpDelete("/p/deleted"),
				).Commit()
				if err != nil {
					t.Error(err)
				}
			}
			seen.Set(l)
		})
	})
	t.Cleanup(func() { cancel(); following.Wait() })
	l := await(t, seen, func(l etcd.Listing) bool { return hasKey(l, "/p/created", "2") })
	if len(l.KVs) != 2 || !hasKey(l, "/p/changed", "2") || l.Revision != before.Revision+1 {
		t.Errorf("got %+v after %+v", l, before)
	}
	if _, err := raw.Put(t.Context(), "/p/last", "3"); err != nil {
		t.Fatal(err)
	}
	await(t, seen, func(l etcd.Listing) bool { return len(l.KVs) == 3 && hasKey(l, "/p/last", "3") })
}

// TestFollow_serverDown: a watch that begins at a server that does not answer moves to
// another one with the client.
func TestFollow_serverDown(t *testing.T) {
	server := etcdtest.New(t)
	working := server.Endpoints()[0]
	nowhere, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	client := newClientOf(t, working, "http://"+nowhere)
	ctx, cancel := context.WithCancel(t.Context())
	seen := event.New(etcd.Listing{})
	var following sync.WaitGroup
	following.Go(func() {
		_ = client.Follow(ctx, "/p/", func(l etcd.Listing) { // its error is that ctx ended
			if seen.Get().Revision == 0 { // between the listing and the watch
				if err := client.SetEndpoints([]string{"http://" + nowhere}); err != nil {
					t.Error(err)
				}
			}
			seen.Set(l)
		})
	})
	t.Cleanup(func() { cancel(); following.Wait() })
	await(t, seen, func(l etcd.Listing) bool { return l.Revision > 0 })
	if err := client.SetEndpoints([]string{"http://" + nowhere, working}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut("/p/a", "1")}, nil); err != nil {
		t.Fatal(err)
	}
	await(t, seen, func(l etcd.Listing) bool { return len(l.KVs) == 1 })
}
