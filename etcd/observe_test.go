package etcd_test

import (
	"context"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// Each request is passed on once, with what became of it.
func TestObserve(t *testing.T) {
	server := etcdtest.New(t)
	client := newClient(t, server.Endpoints()[0])
	var mu sync.Mutex // guards got
	got := map[etcd.Verb]map[etcd.Outcome]int{etcd.Read: {}, etcd.Write: {}, etcd.KeepAlive: {}}
	client.Observe(func(verb etcd.Verb, outcome etcd.Outcome, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		got[verb][outcome]++
	})
	want := func(what string, verb etcd.Verb, outcome etcd.Outcome, n int) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if got[verb][outcome] != n {
			t.Errorf("%s: got %v, want %d %s %s", what, got, n, verb, outcome)
		}
	}
	if _, err := client.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	want("a read", etcd.Read, etcd.Answered, 1)
	if _, err := client.Write(t.Context(), nil, clientv3.OpPut("a", "b")); err != nil {
		t.Fatal(err)
	}
	want("a write", etcd.Write, etcd.Answered, 1)
	if _, err := client.Get(t.Context(), "a", clientv3.WithRev(1<<40)); err == nil {
		t.Error("a revision of the future was read")
	}
	want("a read that etcd refuses", etcd.Read, etcd.Refused, 1)

	if left, some := client.ShortestLease(); some {
		t.Errorf("a lease of %s is held", left)
	}
	err := client.WithSession(t.Context(), 60*time.Second, func(ctx context.Context, _ *etcd.Session) error {
		return client.WithSession(ctx, 30*time.Second, func(context.Context, *etcd.Session) error {
			if left, some := client.ShortestLease(); !some || left <= 0 || left > 27*time.Second {
				t.Errorf("got %s, %t, want a bit less than 27s", left, some)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if left, some := client.ShortestLease(); some {
		t.Errorf("a lease of %s is held", left)
	}
	want("two leases", etcd.Read, etcd.Answered, 3)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Get(gone, "a"); err == nil {
		t.Error("a request without time succeeded")
	}
	want("a request that was given up", etcd.Read, etcd.Silent, 0)
	nowhere := newClient(t, "http://127.0.0.1:1")
	client = nowhere
	client.Observe(func(verb etcd.Verb, outcome etcd.Outcome, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		got[verb][outcome]++
	})
	if _, err := client.Get(t.Context(), "a"); err == nil {
		t.Error("port 1 answered")
	}
	want("a server that does not run", etcd.Read, etcd.Silent, 1)
}
