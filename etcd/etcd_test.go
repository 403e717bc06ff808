package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T, endpoint string) *etcd.Client {
	t.Helper()
	c, err := etcd.NewClient(etcd.Config{Endpoints: []string{endpoint}, Prefix: "/p", RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func leases(t *testing.T, raw *clientv3.Client) int {
	t.Helper()
	resp, err := raw.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(resp.Leases)
}

func TestWithSession(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()[0])

	t.Run("the lease is there while it is held, and revoked afterwards", func(t *testing.T) {
		want := errors.New("done")
		err := client.WithSession(t.Context(), 60*time.Second, func(_ context.Context, s *etcd.Session) error {
			if n := leases(t, raw); n != 1 {
				t.Errorf("%d leases", n)
			}
			// One margin is a tenth of the TTL here.
			if left := time.Until(s.ValidUntil()); left > 54*time.Second || left < 40*time.Second || !s.Valid() {
				t.Errorf("valid for %s", left)
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("got %v", err)
		}
		if n := leases(t, raw); n != 0 {
			t.Errorf("%d leases are left", n)
		}
	})

	t.Run("also where the caller has given up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := client.WithSession(ctx, 60*time.Second, func(held context.Context, _ *etcd.Session) error {
			cancel()
			<-held.Done()
			return context.Cause(held)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if n := leases(t, raw); n != 0 {
			t.Errorf("%d leases are left", n)
		}
	})

	t.Run("it is kept alive beyond its TTL", func(t *testing.T) {
		err := client.WithSession(t.Context(), 3*time.Second, func(held context.Context, s *etcd.Session) error {
			first := s.ValidUntil()
			for !s.ValidUntil().After(first.Add(2 * time.Second)) {
				s.Beat()
				select {
				case <-held.Done():
					return context.Cause(held)
				case <-time.After(50 * time.Millisecond):
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})

	t.Run("revoked by somebody else", func(t *testing.T) {
		err := client.WithSession(t.Context(), 3*time.Second, func(held context.Context, s *etcd.Session) error {
			if _, err := raw.Revoke(t.Context(), s.Lease()); err != nil {
				return err
			}
			<-held.Done()
			if !s.Valid() {
				t.Error("noticed by the own clock only, not by etcd's answer")
			}
			return context.Cause(held)
		})
		if !errors.Is(err, etcd.ErrSessionLost) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a holder that makes no progress loses it", func(t *testing.T) {
		err := client.WithSession(t.Context(), 2*time.Second, func(held context.Context, _ *etcd.Session) error {
			<-held.Done()
			return context.Cause(held)
		})
		if !errors.Is(err, etcd.ErrNoProgress) {
			t.Errorf("got %v", err)
		}
	})
}

// Cut off, the session ends before etcd lets the lease go: whoever holds it
// stops first.
func TestWithSession_cutOff(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	for _, cut := range []etcdtest.Cut{etcdtest.Blackhole, etcdtest.BlackholeRequests, etcdtest.BlackholeResponses, etcdtest.Reset} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			proxy := etcdtest.NewProxy(t, server.Addr())
			client := newClient(t, "http://"+proxy.Addr())
			err := client.WithSession(t.Context(), 3*time.Second, func(held context.Context, s *etcd.Session) error {
				proxy.Cut(cut)
				for {
					s.Beat()
					select {
					case <-held.Done():
						ttl, err := raw.TimeToLive(t.Context(), s.Lease())
						if err != nil {
							return err
						}
						if ttl.TTL < 0 {
							t.Error("etcd has let the lease go before the holder was told")
						}
						return context.Cause(held)
					case <-time.After(50 * time.Millisecond):
					}
				}
			})
			if !errors.Is(err, etcd.ErrSessionLost) {
				t.Errorf("got %v", err)
			}
			if client.Contact().Get().Connected {
				t.Error("the client says that it is connected")
			}
		})
	}
}

// The library's grant blocks for as long as etcd is away; this one does not.
func TestWithSession_etcdAway(t *testing.T) {
	addr, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t, "http://"+addr)
	err = client.WithSession(t.Context(), 3*time.Second, func(context.Context, *etcd.Session) error {
		t.Error("held without etcd")
		return nil
	})
	if err == nil {
		t.Error("want an error")
	}
}

func await[T any](t *testing.T, v *event.Value[T], ok func(T) bool) T {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		val, changed := v.Load()
		if ok(val) {
			return val
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("not seen in time; last: %+v", val)
		}
	}
}

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

func TestClient_rewound(t *testing.T) {
	server := etcdtest.New(t)
	for range 10 {
		if _, err := server.Client(t).Put(t.Context(), "/x", ""); err != nil {
			t.Fatal(err)
		}
	}
	client := newClient(t, server.Endpoints()[0])
	listed := follow(t, client, "/p/")
	before := await(t, listed, func(l etcd.Listing) bool { return l.Revision != 0 }).At
	addr := server.Addr()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	fresh, err := etcdtest.Start(etcdtest.Config{Dir: t.TempDir(), Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fresh.Close(); err != nil {
			t.Error(err)
		}
	})
	go func() { // what a session does after a gap
		for t.Context().Err() == nil && client.Rewound().Get() == 0 {
			_ = client.Check(t.Context())
		}
	}()
	await(t, client.Rewound(), func(n int) bool { return n == 1 })
	after := await(t, listed, func(l etcd.Listing) bool { return l.Rewinds == 1 }).At
	if after.Revision >= before.Revision || !before.Before(after) || after.Before(before) {
		t.Errorf("got %+v after %+v", after, before)
	}
	if rev := client.Contact().Get().Revision; rev >= before.Revision {
		t.Errorf("contact says revision %d", rev)
	}
}

func TestKnownFault(t *testing.T) {
	for version, faulty := range map[string]bool{
		"3.4.40": true, "3.5.0": true, "3.5.27": true, "3.5.28": false, "3.5.30": false,
		"3.6.0": true, "3.6.8": true, "3.6.9": false, "3.7.0": false, "4.0.0": false, "3.6.0-rc.1": true, "what": true,
	} {
		if got := etcd.KnownFault(version) != ""; got != faulty {
			t.Errorf("%s: got %t", version, got)
		}
	}
}
