package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// A grant has a time limit, whatever cuts etcd off. It also ends with its caller.
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
	t.Run("the answer is lost: the lease ends by itself", func(t *testing.T) {
		t.Parallel()
		c := newCutServer(t)
		// The client is connected, so the request arrives.
		if err := c.client.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.proxy.Cut(etcdtest.BlackholeResponses)
		// The lease has to outlive the request.
		err := ends(t, "the grant", func() error {
			return c.client.WithSession(t.Context(), 2*requestTimeout, func(context.Context, *etcd.Session) error { return nil })
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
