package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// keepChecking checks until the test ends.
func keepChecking(t *testing.T, client *etcd.Client, every time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := client.KeepChecking(ctx, every); !errors.Is(err, context.Canceled) {
			t.Errorf("KeepChecking ended: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// hasKey reports whether a listing has a key with a value.
func hasKey(l etcd.Listing, key, value string) bool {
	for _, kv := range l.KVs {
		if kv.Key == key {
			return string(kv.Value) == value
		}
	}
	return false
}

// awaitOpen returns when the watch of a listing is open: only then can it lose an event. It writes a key.
func awaitOpen(t *testing.T, raw *clientv3.Client, listed *event.Value[etcd.Listing], key, value string) {
	t.Helper()
	await(t, listed, func(l etcd.Listing) bool { return l.Revision != 0 })
	if _, err := raw.Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
	await(t, listed, func(l etcd.Listing) bool { return hasKey(l, key, value) })
}

// A watch loses an event, of which no later event reminds it. A check shows the
// difference, and the keys are listed again.
func TestCheck_lostEvent(t *testing.T) {
	for _, fleet := range []int{1, 300} { // with values and without
		t.Run(fmt.Sprintf("%d keys", fleet), func(t *testing.T) {
			server := etcdtest.New(t)
			raw := server.Client(t)
			put := func(key, value string) {
				t.Helper()
				if _, err := raw.Put(t.Context(), key, value); err != nil {
					t.Fatal(err)
				}
			}
			for i := range fleet {
				put(fmt.Sprintf("/p/nodes/%d", i), "old")
			}
			put("/p/nodes/open", "")
			client := newClient(t, server.Endpoints()[0])
			listed := follow(t, client, "/p/nodes/")
			awaitOpen(t, raw, listed, "/p/nodes/open", "1")
			keepChecking(t, client, 50*time.Millisecond)

			server.LoseEvents("/p/nodes/0")
			put("/p/nodes/0", "new")
			put("/p/nodes/another", "")
			await(t, listed, func(l etcd.Listing) bool { return hasKey(l, "/p/nodes/0", "new") })
			if got := server.LoseEvents(""); got != 1 {
				t.Errorf("the watch lost %d events, want 1", got)
			}
			if got := client.WatchDifferences(); got != 1 {
				t.Errorf("counted %d differences, want 1", got)
			}

			awaitOpen(t, raw, listed, "/p/nodes/open", "2")
			server.LoseEvents("/p/nodes/0")
			if _, err := raw.Delete(t.Context(), "/p/nodes/0"); err != nil {
				t.Fatal(err)
			}
			await(t, listed, func(l etcd.Listing) bool { return len(l.KVs) == fleet+1 && !hasKey(l, "/p/nodes/0", "new") })
			if got := client.WatchDifferences(); got != 2 {
				t.Errorf("counted %d differences, want 2", got)
			}
			if got := client.Rewound().Get(); got != 0 {
				t.Errorf("a lost event counts as a store that went back: %d", got)
			}
		})
	}
}

// While all watches work, checks under load find no difference.
func TestCheck_noDifference(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()[0])
	listed := follow(t, client, "/p/")
	await(t, listed, func(l etcd.Listing) bool { return l.Revision != 0 })
	for i := range 300 {
		key := fmt.Sprintf("/p/%d", i%7)
		if _, err := raw.Put(t.Context(), key, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if _, err := raw.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := client.Rewound().Get(); got != 0 {
		t.Errorf("the store went back %d times", got)
	}
	if _, err := raw.Put(t.Context(), "/p/last", ""); err != nil {
		t.Fatal(err)
	}
	await(t, listed, func(l etcd.Listing) bool { return hasKey(l, "/p/last", "") })
	if got := client.WatchDifferences(); got != 0 {
		t.Errorf("counted %d differences, want none", got)
	}
}

// An etcd of another cluster answers at the same address, with a higher revision.
// Nothing that was known of the old one counts any more.
func TestClient_anotherCluster(t *testing.T) {
	server := etcdtest.New(t)
	client := newClient(t, server.Endpoints()[0])
	listed := follow(t, client, "/p/")
	await(t, listed, func(l etcd.Listing) bool { return l.Revision != 0 })
	other := server.Replace(t, etcdtest.Config{Token: "another-cluster"})
	raw := other.Client(t)
	for range 20 {
		if _, err := raw.Put(t.Context(), "/elsewhere", ""); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "etcd answers again", func() bool { return client.Check(t.Context()) == nil })
	await(t, client.Rewound(), func(n int) bool { return n == 1 })
	await(t, listed, func(l etcd.Listing) bool { return l.Rewinds == 1 })
	if got := client.Contact().Get().Revision; got < 20 {
		t.Errorf("the contact has revision %d", got)
	}
}

// A client wrote a key, and etcd was restored before its watch had reported that. The
// view of the watch is as etcd is now, but the write is lost.
func TestCheck_ownWriteLost(t *testing.T) {
	etcdutl := etcdtest.Etcdutl(t)
	for _, existed := range []bool{true, false} {
		t.Run(fmt.Sprintf("the key had existed: %t", existed), func(t *testing.T) {
			server := etcdtest.New(t)
			client := newClient(t, server.Endpoints()[0])
			write := func(value string) {
				t.Helper()
				if _, err := client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut("/p/k", value)}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if existed {
				write("old")
			}
			listed := follow(t, client, "/p/")
			awaitOpen(t, server.Client(t), listed, "/p/open", "")
			snapshot := filepath.Join(t.TempDir(), "snapshot")
			if err := server.Save(t.Context(), snapshot); err != nil {
				t.Fatal(err)
			}

			server.LoseEvents("/p/k")
			write("new")
			until(t, "the event is lost", func() bool { return server.LostEvents() > 0 })
			at := client.Contact().Get().Revision
			if err := server.Restore(t.Context(), etcdtest.Restoration{Etcdutl: etcdutl, File: snapshot}); err != nil {
				t.Fatal(err)
			}
			raw := server.Client(t)
			for range 50 {
				if _, err := raw.Put(t.Context(), "/elsewhere", ""); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "etcd answers again", func() bool { return client.Check(t.Context()) == nil })
			keepChecking(t, client, 50*time.Millisecond)
			await(t, listed, func(l etcd.Listing) bool { return l.Rewinds > 0 || l.Revision > at })
			if existed != (client.Rewound().Get() == 1) {
				t.Errorf("counted %d times that the store went back", client.Rewound().Get())
			}
		})
	}
}

// A check that reads more for its caller is a check like any other, whether the
// caller's condition holds or not.
func TestCheckWith(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	put := func(key, value string) {
		t.Helper()
		if _, err := raw.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	put("/p/own", "1")
	client := newClient(t, server.Endpoints()[0])
	if resp, err := client.CheckWith(t.Context(), nil, clientv3.OpGet("/p/own")); err != nil || len(resp.Responses) != 1 {
		t.Errorf("nothing is followed: got %v, %v", resp, err)
	}
	nodes, others := follow(t, client, "/p/nodes/"), follow(t, client, "/p/others/")
	await(t, others, func(l etcd.Listing) bool { return l.Revision != 0 })
	for i, holds := range []bool{true, false} {
		awaitOpen(t, raw, nodes, "/p/nodes/open", fmt.Sprint(i))
		server.LoseEvents(fmt.Sprintf("/p/nodes/%d", i))
		put(fmt.Sprintf("/p/nodes/%d", i), "new")
		put("/p/nodes/another", fmt.Sprint(i)) // the watch has reported more than what it lost
		await(t, nodes, func(l etcd.Listing) bool { return hasKey(l, "/p/nodes/another", fmt.Sprint(i)) })
		cond := clientv3.Compare(clientv3.Version("/p/own"), ">", map[bool]int{true: 0, false: 1}[holds])
		resp, err := client.CheckWith(t.Context(), []clientv3.Cmp{cond}, clientv3.OpGet("/p/own"))
		switch {
		case holds && (err != nil || !hasKey(etcd.NewListing(resp, 0), "/p/own", "1")):
			t.Errorf("got %v, %v, want what was asked for first", resp, err)
		case !holds && !errors.Is(err, etcd.ErrChanged):
			t.Errorf("got %v, %v, want ErrChanged", resp, err)
		}
		await(t, nodes, func(l etcd.Listing) bool { return hasKey(l, fmt.Sprintf("/p/nodes/%d", i), "new") })
		if got := client.WatchDifferences(); got != int64(i+1) {
			t.Errorf("counted %d differences, want %d", got, i+1)
		}
	}
}
