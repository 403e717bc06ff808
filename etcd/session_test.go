package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

func TestWithSession(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()[0])

	t.Run("the lease exists while it is held, and is revoked afterwards", func(t *testing.T) {
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

	t.Run("also when the caller cancels", func(t *testing.T) {
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

	t.Run("revoked by another client", func(t *testing.T) {
		// A keep-alive is sent after three seconds. The session is valid for five more,
		// so a busy machine can be late.
		err := client.WithSession(t.Context(), 9*time.Second, func(held context.Context, s *etcd.Session) error {
			if _, err := raw.Revoke(t.Context(), s.Lease()); err != nil {
				return err
			}
			<-held.Done()
			if !s.Valid() {
				t.Error("noticed only by the session's clock, not by etcd's answer")
			}
			return context.Cause(held)
		})
		if !errors.Is(err, etcd.ErrSessionLost) {
			t.Errorf("got %v", err)
		}
	})

}

// The library's grant blocks while etcd is unreachable; ours does not.
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

// A holder that calls Beat keeps its session for longer than the watchdog allows
// without it.
func TestSession_beats(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	// Keep-alives have three seconds more than they need on an idle machine.
	const ttl = 6 * time.Second
	err := c.client.WithSession(t.Context(), ttl, func(held context.Context, s *etcd.Session) error {
		defer beating(held, s)()
		first := s.ValidUntil()
		until(t, "more than two TTLs", func() bool { return s.ValidUntil().After(first.Add(5*ttl/2)) || held.Err() != nil })
		return context.Cause(held)
	})
	if err != nil {
		t.Error(err)
	}
}

// Whatever ends the session, it revokes the lease. If etcd is unreachable, the
// attempt has a time limit.
func TestSession_exits(t *testing.T) {
	t.Parallel()
	t.Run("the holder panics", func(t *testing.T) {
		t.Parallel()
		c := newCutServer(t)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = c.client.WithSession(t.Context(), time.Minute, func(context.Context, *etcd.Session) error { panic("x") })
		}()
		if n := leases(t, c.raw); n != 0 {
			t.Errorf("%d leases are left", n)
		}
	})
	t.Run("a holder without progress", func(t *testing.T) {
		t.Parallel()
		c := newCutServer(t)
		// With a shorter TTL, a busy machine would lose the lease first.
		err := c.client.WithSession(t.Context(), 5*time.Second, func(held context.Context, _ *etcd.Session) error {
			<-held.Done()
			return context.Cause(held)
		})
		if !errors.Is(err, etcd.ErrNoProgress) {
			t.Errorf("got %v", err)
		}
		if n := leases(t, c.raw); n != 0 {
			t.Errorf("%d leases are left", n)
		}
	})
	for _, cut := range []etcdtest.Cut{etcdtest.Blackhole, etcdtest.BlackholeRequests, etcdtest.BlackholeResponses, etcdtest.Reset} {
		t.Run(fmt.Sprintf("cut off by %d", cut), func(t *testing.T) {
			t.Parallel()
			c := newCutServer(t)
			want := errors.New("done")
			err := ends(t, "the end of a session of a minute", func() error {
				return c.client.WithSession(t.Context(), time.Minute, func(context.Context, *etcd.Session) error {
					c.proxy.Cut(cut)
					return want
				})
			})
			if !errors.Is(err, want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The server that the client uses hangs when the session ends: another one revokes the lease.
func TestSession_exitsAtAnotherServer(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	other := etcdtest.NewProxy(t, c.Addr())
	client := newClientOf(t, "http://"+c.proxy.Addr(), "http://"+other.Addr())
	want := errors.New("done")
	if err := client.WithSession(t.Context(), time.Minute, func(context.Context, *etcd.Session) error {
		c.proxy.Cut(etcdtest.Blackhole)
		return want
	}); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
	if n := leases(t, c.raw); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

// The end of a session ends everything that its holder does with the context, even
// in the middle of a request.
func TestSession_endsItsUsers(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	err := c.client.WithSession(t.Context(), 3*time.Second, func(held context.Context, s *etcd.Session) error {
		defer beating(held, s)()
		follower := func() error {
			return c.client.Follow(held, "/p/", func(etcd.Listing) {
				if _, err := c.raw.Revoke(t.Context(), s.Lease()); err != nil {
					t.Error(err)
				}
			})
		}
		if err := ends(t, "a watch of the holder's", follower); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		// A request that still arrives has no effect: etcd refuses the ended lease.
		_, err := c.client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut("/p/late", "", clientv3.WithLease(s.Lease()))}, nil)
		if err == nil {
			t.Error("a key was written on a lease that has ended")
		}
		return context.Cause(held)
	})
	if !errors.Is(err, etcd.ErrSessionLost) {
		t.Errorf("got %v", err)
	}
}
