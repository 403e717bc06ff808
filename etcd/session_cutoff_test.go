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

// The faults that a session can meet are tested one by one: keep-alives that are
// lost, late, or answered after the lease has ended, and an etcd that restarts.

// cutServer is an etcd with two clients: raw, and one behind a proxy.
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

// left returns for how many full seconds etcd will keep the lease; -1: it has ended.
func (c *cutServer) left(t *testing.T, lease clientv3.LeaseID) int64 {
	t.Helper()
	resp, err := c.raw.TimeToLive(t.Context(), lease)
	if err != nil {
		t.Error(err)
		return -1
	}
	return resp.TTL
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

// A session that is cut off ends before etcd ends the lease. So its holder stops
// before another one can start.
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
							t.Error("etcd ended the lease before the session ended")
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
				t.Error("the client reports that it is connected")
			}
		})
	}
}

// A keep-alive that is answered late, but in time, keeps the session. The validity
// counts from when it was sent, so the delay does not extend it.
func TestSession_answeredLate(t *testing.T) {
	t.Parallel()
	c := newCutServer(t)
	const ttl = 9 * time.Second
	err := c.client.WithSession(t.Context(), ttl, func(held context.Context, s *etcd.Session) error {
		defer beating(held, s)()
		first := s.ValidUntil()
		until(t, "the lease is a second old", func() bool { return c.left(t, s.Lease()) < 8 })
		c.proxy.Cut(etcdtest.BlackholeResponses)
		// The keep-alive is sent after a third of the TTL. etcd renews the lease,
		// and the session does not know it.
		until(t, "renewed", func() bool { return c.left(t, s.Lease()) >= 8 })
		renewed := time.Now()
		if s.ValidUntil() != first {
			t.Error("the validity moved without an answer")
		}
		<-time.After(time.Second) // the answer is delayed by this much
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

// A keep-alive without an answer is sent again, on another stream, before the lease
// ends.
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

// Requests or answers that arrive after etcd ended the lease do not revive the
// session.
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
				until(t, "etcd has ended the lease", func() bool { return c.left(t, s.Lease()) < 0 })
				c.proxy.Restore()
				// What the proxy held back arrives before the answer to this.
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

// When its leader changes, etcd gives each lease its full TTL again
// (docs/upstream.md#etcd-lease-extended). A session that is cut off does not count
// on that. The key of a dead holder may live for twice its TTL.
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
