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

// The faults that a session can meet, one test for each: keep-alives late,
// answered after the lease is gone, etcd restarted, away at the beginning and
// at the end. Those that are lost are in TestWithSession_cutOff.

// cutServer is an etcd, a client of it, and one behind a proxy.
type cutServer struct {
	*etcdtest.Server
	raw    *clientv3.Client
	proxy  *etcdtest.Proxy
	client *etcd.Client
}

func newCutServer(t *testing.T) *cutServer {
	t.Helper()
	server := etcdtest.New(t)
	proxy := etcdtest.NewProxy(t, server.Addr())
	return &cutServer{server, server.Client(t), proxy, newClient(t, "http://"+proxy.Addr())}
}

// left returns for how many full seconds etcd still keeps the lease; -1: it is
// gone.
func (c *cutServer) left(t *testing.T, lease clientv3.LeaseID) int64 {
	t.Helper()
	resp, err := c.raw.TimeToLive(t.Context(), lease)
	if err != nil {
		t.Error(err)
		return -1
	}
	return resp.TTL
}

// until polls cond, and gives up the test where it does not come true.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// ends fails the test where f hangs. It is far above each limit that f has to
// keep, so that a slow machine does not fail it.
func ends[T any](t *testing.T, what string, f func() T) T {
	t.Helper()
	out := make(chan T, 1)
	go func() { out <- f() }()
	select {
	case v := <-out:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("hangs: %s", what)
		panic("not reached")
	}
}

// beating calls Beat until held ends, as a holder that makes progress does.
func beating(held context.Context, s *etcd.Session) (stop func()) {
	ctx, cancel := context.WithCancel(held)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			s.Beat()
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// A keep-alive that is answered late, but in time, keeps the session; its
// validity counts from when it was sent, so the delay is no gain.
func TestSession_answeredLate(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	const ttl = 9 * time.Second
	err := c.client.WithSession(t.Context(), ttl, func(held context.Context, s *etcd.Session) error {
		defer beating(held, s)()
		first := s.ValidUntil()
		until(t, "the lease is a second old", func() bool { return c.left(t, s.Lease()) < 8 })
		c.proxy.Cut(etcdtest.BlackholeResponses)
		// The keep-alive is sent when a third of the TTL is over: etcd has the
		// lease renewed, and nobody here knows.
		until(t, "renewed", func() bool { return c.left(t, s.Lease()) >= 8 })
		renewed := time.Now()
		if s.ValidUntil() != first {
			t.Error("the validity moved without an answer")
		}
		<-time.After(time.Second) // for so long the answer is held
		c.proxy.Restore()
		until(t, "the answer is there", func() bool { return s.ValidUntil() != first })
		if latest := renewed.Add(ttl - time.Second); s.ValidUntil().After(latest) {
			t.Errorf("valid for %s longer than from the sending of the keep-alive", s.ValidUntil().Sub(latest))
		}
		return held.Err()
	})
	if err != nil {
		t.Error(err)
	}
}

// A keep-alive that is not answered is sent again, on another stream, before the
// lease is over.
func TestSession_sendsAgain(t *testing.T) {
	t.Parallel()
	for _, cut := range []etcdtest.Cut{etcdtest.Blackhole, etcdtest.Reset} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			c := newCutServer(t)
			err := c.client.WithSession(t.Context(), 9*time.Second, func(held context.Context, s *etcd.Session) error {
				defer beating(held, s)()
				first := s.ValidUntil()
				c.proxy.Cut(cut)
				until(t, "a keep-alive was lost", func() bool { return !c.client.Contact().Get().Connected })
				c.proxy.Restore()
				until(t, "the session goes on", func() bool { return s.ValidUntil().After(first) || held.Err() != nil })
				return context.Cause(held)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Requests or answers arrive only when etcd has let the lease go: they do not
// revive the session.
func TestSession_answeredAfterTheEnd(t *testing.T) {
	t.Parallel()
	for _, cut := range []etcdtest.Cut{etcdtest.Blackhole, etcdtest.BlackholeRequests, etcdtest.BlackholeResponses} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			c := newCutServer(t)
			err := c.client.WithSession(t.Context(), 2*time.Second, func(held context.Context, s *etcd.Session) error {
				c.proxy.Cut(cut)
				// Before it can have been renewed once; what is on its way is cut off.
				validUntil := s.ValidUntil()
				<-held.Done()
				if s.Valid() {
					t.Error("the session has ended and is valid")
				}
				until(t, "etcd has let the lease go", func() bool { return c.left(t, s.Lease()) < 0 })
				c.proxy.Restore()
				// What was held is delivered before the answer to this.
				until(t, "etcd answers again", func() bool { return c.client.Check(t.Context()) == nil })
				if s.Valid() || !s.ValidUntil().Equal(validUntil) {
					t.Errorf("the validity moved by %s", s.ValidUntil().Sub(validUntil))
				}
				return context.Cause(held)
			})
			if !errors.Is(err, etcd.ErrSessionLost) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// When its leader changes, etcd gives each lease its full TTL again. The session
// of a holder that is cut off does not count on it, and the key of a dead one
// may live for twice its TTL.
func TestSession_etcdRestarts(t *testing.T) {
	t.Parallel()
	t.Run("while the holder is cut off", func(t *testing.T) {
		t.Parallel()
		c := newCutServer(t)
		err := c.client.WithSession(t.Context(), 3*time.Second, func(held context.Context, s *etcd.Session) error {
			c.proxy.Cut(etcdtest.Blackhole)
			validUntil := s.ValidUntil()
			until(t, "a part of the lease is over", func() bool { return c.left(t, s.Lease()) < 2 })
			c.Stop()
			if err := c.Restart(); err != nil {
				return err
			}
			<-held.Done()
			if s.Valid() || !s.ValidUntil().Equal(validUntil) {
				t.Errorf("the validity moved by %s", s.ValidUntil().Sub(validUntil))
			}
			return context.Cause(held)
		})
		if !errors.Is(err, etcd.ErrSessionLost) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("for a short time, and the session goes on", func(t *testing.T) {
		t.Parallel()
		c := newCutServer(t)
		err := c.client.WithSession(t.Context(), 9*time.Second, func(held context.Context, s *etcd.Session) error {
			defer beating(held, s)()
			first := s.ValidUntil()
			c.Stop()
			if err := c.Restart(); err != nil {
				return err
			}
			until(t, "renewed", func() bool { return s.ValidUntil().After(first) || held.Err() != nil })
			return context.Cause(held)
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A grant ends by itself, whatever keeps etcd away, and with the caller.
func TestSession_grant(t *testing.T) {
	t.Parallel()
	for _, cut := range []etcdtest.Cut{etcdtest.Blackhole, etcdtest.BlackholeRequests, etcdtest.BlackholeResponses, etcdtest.Reset} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			c := newCutServer(t)
			c.proxy.Cut(cut)
			err := ends(t, "the grant", func() error {
				return c.client.WithSession(t.Context(), 3*time.Second, func(context.Context, *etcd.Session) error {
					t.Error("held without a lease")
					return nil
				})
			})
			if err == nil {
				t.Error("got no error")
			}
		})
	}
	t.Run("the answer is lost: nobody has the lease, and it ends by itself", func(t *testing.T) {
		t.Parallel()
		c := newCutServer(t)
		// The connection is there, so that the request passes.
		if err := c.client.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.proxy.Cut(etcdtest.BlackholeResponses)
		err := ends(t, "the grant", func() error {
			return c.client.WithSession(t.Context(), 2*time.Second, func(context.Context, *etcd.Session) error { return nil })
		})
		if err == nil {
			t.Error("got no error")
		}
		if n := leases(t, c.raw); n != 1 {
			t.Errorf("%d leases, want the one that was granted", n)
		}
		until(t, "no lease", func() bool { return leases(t, c.raw) == 0 })
	})
	t.Run("the caller gives up", func(t *testing.T) {
		t.Parallel()
		c := newCutServer(t)
		client, err := etcd.NewClient(etcd.Config{
			Endpoints: []string{"http://" + c.proxy.Addr()}, Prefix: "/p", RequestTimeout: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c.proxy.Cut(etcdtest.Blackhole)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = ends(t, "a grant that was given up", func() error {
			return client.WithSession(ctx, 3*time.Second, func(context.Context, *etcd.Session) error { return nil })
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// Whatever ends the session, the lease is given back, and where etcd is away the
// attempt is bounded.
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
		err := c.client.WithSession(t.Context(), 2*time.Second, func(held context.Context, _ *etcd.Session) error {
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

// The end of a session ends all that its holder does with its context, in the
// midst of a request too.
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
		// What still gets through has no effect: the lease takes its keys along.
		_, err := c.client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut("/p/late", "", clientv3.WithLease(s.Lease()))}, nil)
		if err == nil {
			t.Error("a key was written on a lease that is gone")
		}
		return context.Cause(held)
	})
	if !errors.Is(err, etcd.ErrSessionLost) {
		t.Errorf("got %v", err)
	}
}

// A holder that beats keeps its session for longer than the watchdog bears.
func TestSession_beats(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	// Two thirds of it are left after the margin: a busy machine may be late.
	const ttl = 4 * time.Second
	err := c.client.WithSession(t.Context(), ttl, func(held context.Context, s *etcd.Session) error {
		defer beating(held, s)()
		first := s.ValidUntil()
		until(t, "three TTLs", func() bool { return s.ValidUntil().After(first.Add(3*ttl)) || held.Err() != nil })
		return context.Cause(held)
	})
	if err != nil {
		t.Error(err)
	}
}
