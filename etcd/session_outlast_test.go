package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// A session that outlasts a silent etcd goes on with its lease, if etcd still knows it,
// and requests no other.
func TestSession_Outlast(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	err := c.client.WithSession(t.Context(), 6*time.Second, func(held context.Context, s *etcd.Session) error {
		defer beating(held, s)()
		s.Outlast()
		// An etcd that was off gives each lease its full TTL again.
		c.Stop()
		until(t, "not valid", func() bool { return !s.Valid() })
		if s.Rely() {
			t.Error("its holder may rely on a session that is not valid")
		}
		if err := c.Restart(); err != nil {
			return err
		}
		until(t, "valid again", func() bool { return s.Valid() || held.Err() != nil })
		until(t, "the store is read", func() bool { return c.client.Contact().Get().Connected })
		if left := c.left(t, s.Lease()); left < 0 {
			t.Error("another lease than that of the session")
		}
		if !s.Rely() {
			t.Error("its holder may not rely on a valid session")
		}
		return context.Cause(held)
	})
	if err != nil {
		t.Error(err)
	}
	until(t, "no lease", func() bool { return leases(t, c.raw) == 0 })
}

// Outlast does not keep a session whose lease etcd has ended.
func TestSession_Outlast_leaseEnded(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	err := c.client.WithSession(t.Context(), 2*time.Second, func(held context.Context, s *etcd.Session) error {
		defer beating(held, s)()
		s.Outlast()
		c.proxy.Cut(etcdtest.Blackhole)
		until(t, "etcd has ended the lease", func() bool { return c.left(t, s.Lease()) < 0 })
		if held.Err() != nil {
			t.Errorf("ended before etcd has said so: %v", context.Cause(held))
		}
		c.proxy.Restore()
		<-held.Done()
		if s.Valid() {
			t.Error("valid again")
		}
		return context.Cause(held)
	})
	if !errors.Is(err, etcd.ErrSessionLost) {
		t.Errorf("got %v", err)
	}
}

// From Rely on, the session ends in time again.
func TestSession_Rely(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	err := c.client.WithSession(t.Context(), 3*time.Second, func(held context.Context, s *etcd.Session) error {
		defer beating(held, s)()
		s.Outlast()
		if !s.Rely() {
			t.Error("a new session is not valid")
		}
		c.proxy.Cut(etcdtest.Blackhole)
		<-held.Done()
		if c.left(t, s.Lease()) < 0 {
			t.Error("etcd ended the lease before the session ended")
		}
		return context.Cause(held)
	})
	if !errors.Is(err, etcd.ErrSessionLost) {
		t.Errorf("got %v", err)
	}
}

// A lease that could not be revoked, because etcd did not answer, is revoked when the next
// one is granted: an etcd that was off would keep its key for another TTL.
func TestWithSession_revokesWhatWasLeft(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	const ttl = time.Minute
	err := c.client.WithSession(t.Context(), ttl, func(context.Context, *etcd.Session) error {
		c.proxy.Cut(etcdtest.BlackholeRequests)
		return nil
	})
	if err != nil || leases(t, c.raw) != 1 {
		t.Fatalf("%d leases, want the one that was not revoked; %v", leases(t, c.raw), err)
	}
	c.proxy.Cut(etcdtest.Reset)
	c.proxy.Restore()
	until(t, "etcd answers again", func() bool { return c.client.Check(t.Context()) == nil })
	err = c.client.WithSession(t.Context(), ttl, func(_ context.Context, s *etcd.Session) error {
		if n := leases(t, c.raw); n != 1 || c.left(t, s.Lease()) < 0 {
			t.Errorf("%d leases, want only the new one", n)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
