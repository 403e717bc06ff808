package etcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// newPatientClient returns a client that gives up no attempt within a test's time because
// of the time.
func newPatientClient(t *testing.T, endpoints ...string) *etcd.Client {
	t.Helper()
	c, err := etcd.NewClient(etcd.Config{Endpoints: endpoints, Prefix: "/p", RequestTimeout: time.Hour, AttemptTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	// From now on it is connected, and knows the term of the leader.
	if err := writeKey(t, c, "/q/known"); err != nil {
		t.Fatal(err)
	}
	return c
}

// stall lets the member answer nothing but requests for the members until resume is called.
func (m *member) stall() (resume func()) {
	stalled := make(chan struct{})
	m.stalled.Store(&stalled)
	return func() {
		m.stalled.Store(nil)
		close(stalled)
	}
}

// elect makes the voter that does not lead the leader.
func elect(t *testing.T, voters ...*member) {
	t.Helper()
	until(t, "another leader", func() bool {
		for i, m := range voters {
			if m.Server.Leader() == m.Server.MemberID() {
				other := voters[1-i].Server.MemberID()
				return m.Server.MoveLeader(t.Context(), uint64(m.Server.MemberID()), uint64(other)) == nil
			}
		}
		return false
	})
}

// A request that is under way when etcd elects another leader ends, although its time is
// not over: the leader that had it may be dead.
func TestClient_newLeader(t *testing.T) {
	one, two, learner := newMembers(t)
	write := func(c *etcd.Client) <-chan error {
		done := make(chan error, 1)
		go func() { done <- writeKey(t, c, "/q/newleader") }()
		return done
	}
	// asked waits until a server was asked who leads while a request is under way.
	asked := func(m *member) {
		before := m.asked.Load()
		until(t, "questions who leads", func() bool { return m.asked.Load() >= before+2 })
	}
	t.Run("a write", func(t *testing.T) {
		c := newPatientClient(t, one.endpoint(), two.endpoint())
		resume := one.stall()
		done := write(c)
		asked(one)
		elect(t, one, two)
		err := ends(t, "the write", func() error { return <-done })
		if err == nil || !strings.Contains(err.Error(), "another leader") {
			t.Errorf("got %v", err)
		}
		resume()
		// On a busy machine etcd may elect again.
		until(t, "the next write", func() bool {
			return ends(t, "a write", func() error { return writeKey(t, c, "/q/next") }) == nil
		})
	})
	t.Run("a read is repeated", func(t *testing.T) {
		c := newPatientClient(t, one.endpoint(), two.endpoint())
		done := make(chan error, 1)
		defer one.stall()()
		go func() {
			_, err := c.Get(t.Context(), "/q/known")
			done <- err
		}()
		asked(one)
		// The stalled server may be the one that reports the new leader first. Then it is
		// asked again, until the next leader.
		until(t, "the answer", func() bool {
			elect(t, one, two)
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
				return true
			case <-time.After(100 * time.Millisecond):
				return false
			}
		})
	})
	t.Run("the server in use does not answer at all", func(t *testing.T) {
		proxy := etcdtest.NewProxy(t, one.client)
		c := newPatientClient(t, "http://"+proxy.Addr(), learner.endpoint(), two.endpoint())
		proxy.Cut(etcdtest.Blackhole)
		done := write(c)
		asked(two)
		elect(t, one, two)
		if err := ends(t, "the write", func() error { return <-done }); err == nil {
			t.Error("got no error")
		}
		if got := c.Endpoint(); got != two.endpoint() {
			t.Errorf("the client uses %s", got)
		}
	})
	t.Run("a slow server with the same leader is waited for", func(t *testing.T) {
		c := newPatientClient(t, one.endpoint(), two.endpoint())
		resume := one.stall()
		done := write(c)
		asked(one)
		asked(two)
		resume()
		if err := ends(t, "the write", func() error { return <-done }); err != nil {
			t.Error(err)
		}
		if got := c.Endpoint(); got != one.endpoint() {
			t.Errorf("the client uses %s", got)
		}
	})
	t.Run("a request that its caller gives up shows nothing of etcd", func(t *testing.T) {
		c := newPatientClient(t, one.endpoint(), two.endpoint())
		defer one.stall()()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := c.Get(ctx, "/q/known")
			done <- err
		}()
		asked(one)
		cancel()
		if err := ends(t, "the read", func() error { return <-done }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if !c.Contact().Get().Connected || c.Endpoint() != one.endpoint() {
			t.Errorf("got %+v at %s", c.Contact().Get(), c.Endpoint())
		}
	})
}
