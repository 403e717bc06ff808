package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// sharing runs owner with a session that outlasts a silent etcd, and beside it part, which shares its lease.
// It returns the errors of both.
func (c *cutServer) sharing(
	t *testing.T, ttl time.Duration, owner func(context.Context, *etcd.Session) error, part func(context.Context, *etcd.Session) error,
) (ownerErr, partErr error) {
	t.Helper()
	ended := make(chan error, 1)
	ownerErr = c.client.WithSession(t.Context(), ttl, func(held context.Context, s *etcd.Session) error {
		defer beating(held, s)()
		s.Outlast()
		go func() { ended <- s.Share(t.Context(), part) }()
		return owner(held, s)
	})
	return ownerErr, <-ended
}

func untilDone(held context.Context, _ *etcd.Session) error {
	<-held.Done()
	return context.Cause(held)
}

// One that shares a lease keeps keys on it, has the same validity, and deletes its keys when it ends. The
// lease lives on.
func TestSession_Share(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	shared := make(chan struct{})
	ownerErr, partErr := c.sharing(t, time.Minute, func(held context.Context, s *etcd.Session) error {
		<-shared
		if n := leases(t, c.raw); n != 1 || held.Err() != nil || !s.Valid() {
			t.Errorf("%d leases, want the one that lives on", n)
		}
		return nil
	}, func(held context.Context, s *etcd.Session) error {
		defer close(shared)
		if n := leases(t, c.raw); n != 1 || !s.Valid() {
			t.Errorf("%d leases", n)
		}
		created := c.putOn(t, s, "/p/key")
		s.Delete(held, "/p/key", created)
		if n := c.count(t, "/p/key"); n != 0 || held.Err() != nil {
			t.Errorf("%d keys; %v", n, context.Cause(held))
		}
		return nil
	})
	if ownerErr != nil || partErr != nil {
		t.Errorf("got %v and %v", ownerErr, partErr)
	}
}

func (c *cutServer) putOn(t *testing.T, s *etcd.Session, key string) (created int64) {
	t.Helper()
	resp, err := c.client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut(key, "", clientv3.WithLease(s.Lease()))}, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	return resp.Header.Revision
}

func (c *cutServer) count(t *testing.T, key string) int64 {
	t.Helper()
	resp, err := c.raw.Get(t.Context(), key)
	if err != nil {
		t.Error(err)
		return -1
	}
	return resp.Count
}

// While etcd is silent, one that relies on the lease ends before etcd can end it, and the owner goes on.
func TestSession_Share_relies(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	ended := make(chan struct{})
	ownerErr, partErr := c.sharing(t, 3*time.Second, func(held context.Context, s *etcd.Session) error {
		<-ended
		if held.Err() != nil {
			t.Errorf("the owner ended too: %v", context.Cause(held))
		}
		return nil
	}, func(held context.Context, s *etcd.Session) error {
		defer close(ended)
		defer beating(held, s)()
		s.Outlast()
		if !s.Rely() {
			t.Error("a new session is not valid")
		}
		c.proxy.Cut(etcdtest.Blackhole)
		<-held.Done()
		if c.left(t, s.Lease()) < 0 {
			t.Error("etcd ended the lease before")
		}
		return context.Cause(held)
	})
	if ownerErr != nil || !errors.Is(partErr, etcd.ErrSessionLost) {
		t.Errorf("got %v and %v", ownerErr, partErr)
	}
}

// One that has ended stays ended when the lease lives on: what it began must not go on.
func TestSession_Share_staysEnded(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	owners, ended := make(chan *etcd.Session, 1), make(chan struct{})
	ownerErr, partErr := c.sharing(t, 6*time.Second, func(held context.Context, s *etcd.Session) error {
		owners <- s
		<-ended
		return context.Cause(held)
	}, func(held context.Context, s *etcd.Session) error {
		defer close(ended)
		defer beating(t.Context(), s)()
		owner := <-owners
		c.Stop() // an etcd that was off gives each lease its full TTL again
		<-held.Done()
		if err := c.Restart(); err != nil {
			return err
		}
		until(t, "the owner is valid again", owner.Valid)
		if s.Valid() || s.Rely() {
			t.Error("it is valid again, too")
		}
		return context.Cause(held)
	})
	if ownerErr != nil || !errors.Is(partErr, etcd.ErrSessionLost) {
		t.Errorf("got %v and %v", ownerErr, partErr)
	}
}

// The end of the owner ends all who share its lease, and the lease is revoked only after them: what they
// do relies on their keys.
func TestSession_Share_ownerEnds(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	shared := make(chan struct{})
	ownerErr, partErr := c.sharing(t, time.Minute, func(context.Context, *etcd.Session) error {
		<-shared
		return nil
	}, func(held context.Context, s *etcd.Session) error {
		close(shared)
		<-held.Done()
		<-time.After(300 * time.Millisecond) // as long as a revocation takes
		if n := leases(t, c.raw); n != 1 {
			t.Error("the lease was revoked while it was shared")
		}
		return context.Cause(held)
	})
	if ownerErr != nil || !errors.Is(partErr, etcd.ErrSessionLost) {
		t.Errorf("got %v and %v", ownerErr, partErr)
	}
	if n := leases(t, c.raw); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

// After its end, a session is not shared any more.
func TestSession_Share_late(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	var late *etcd.Session
	if err := c.client.WithSession(t.Context(), time.Minute, func(_ context.Context, s *etcd.Session) error {
		late = s
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	err := late.Share(t.Context(), func(context.Context, *etcd.Session) error {
		t.Error("held after the end")
		return nil
	})
	if !errors.Is(err, etcd.ErrSessionLost) {
		t.Errorf("got %v", err)
	}
}

// If one that shares the lease makes no progress, the lease ends: its keys are on it.
func TestSession_Share_noProgress(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	ownerErr, partErr := c.sharing(t, 5*time.Second, untilDone, untilDone)
	if !errors.Is(ownerErr, etcd.ErrNoProgress) || partErr == nil {
		t.Errorf("got %v and %v", ownerErr, partErr)
	}
	if n := leases(t, c.raw); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

// If etcd does not confirm that a key was deleted, the session ends for all, and its lease does not keep
// the key.
func TestSession_Delete_notConfirmed(t *testing.T) {
	t.Parallel()
	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		c := newCutServer(t)
		ownerErr, partErr := c.sharing(t, 5*time.Second, untilDone, func(held context.Context, s *etcd.Session) error {
			created := c.putOn(t, s, "/p/key")
			c.proxy.Cut(etcdtest.BlackholeRequests)
			s.Delete(held, "/p/key", created)
			return nil
		})
		if !errors.Is(ownerErr, etcd.ErrSessionLost) || partErr != nil {
			t.Errorf("got %v and %v", ownerErr, partErr)
		}
		until(t, "no key", func() bool { return c.count(t, "/p/key") == 0 })
	})
	t.Run("the key is another one", func(t *testing.T) {
		t.Parallel()
		c := newCutServer(t)
		ownerErr, partErr := c.sharing(t, time.Minute, untilDone, func(held context.Context, s *etcd.Session) error {
			created := c.putOn(t, s, "/p/key")
			s.Delete(held, "/p/key", created-1)
			return nil
		})
		if !errors.Is(ownerErr, etcd.ErrSessionLost) || partErr != nil || c.count(t, "/p/key") != 0 {
			t.Errorf("got %v and %v", ownerErr, partErr)
		}
	})
}

// If the owner hangs after its session has ended, those who share the lease end all the same.
func TestSession_Share_ownerHangs(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	ended := make(chan struct{})
	ownerErr, partErr := c.sharing(t, time.Minute, func(_ context.Context, s *etcd.Session) error {
		return ends(t, "the one that shares the lease", func() error { <-ended; return nil })
	}, func(held context.Context, s *etcd.Session) error {
		defer close(ended)
		s.End(errors.New("enough"))
		<-held.Done()
		return context.Cause(held)
	})
	if ownerErr != nil || !errors.Is(partErr, etcd.ErrSessionLost) {
		t.Errorf("got %v and %v", ownerErr, partErr)
	}
}

// If the lease is given up, the key has ended when Share returns.
func TestSession_Share_returnsAfterRevocation(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	shared := make(chan struct{})
	err := c.client.WithSession(t.Context(), time.Minute, func(held context.Context, s *etcd.Session) error {
		go func() {
			defer close(shared)
			_ = s.Share(t.Context(), func(held context.Context, s *etcd.Session) error {
				created := c.putOn(t, s, "/p/key")
				s.Delete(held, "/p/key", created-1) // it cannot be confirmed
				return nil
			})
			if n := c.count(t, "/p/key"); n != 0 {
				t.Error("the key exists")
			}
		}()
		<-held.Done()
		c.proxy.Delay(100 * time.Millisecond) // a revocation takes longer than to read the key
		return context.Cause(held)
	})
	if !errors.Is(err, etcd.ErrSessionLost) {
		t.Errorf("got %v", err)
	}
	<-shared
}
