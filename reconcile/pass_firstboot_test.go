package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestFirstBoot asks for the built-in bundle from the moment on at which the
// process of a kube-apiserver on an empty etcd is started: it refuses
// connections, then requests, and then has no namespace kube-system.
func TestFirstBoot(t *testing.T) {
	c := cluster.NewForTest(t, "kube-apiserver")
	server, err := c.StartAPIServer(cluster.APIServerConfig{Name: "known"})
	if err != nil {
		t.Fatal(err)
	}
	restConfig, addr := server.Config(), strings.TrimPrefix(server.URL(), "https://")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Etcd.Client(t).Delete(t.Context(), "/registry", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	r, err := reconcile.New(reconcile.Config{RESTConfig: restConfig, Bundle: event.New(b)})
	if err != nil {
		t.Fatal(err)
	}
	work := protocol.Work{LeaderEpoch: 1, Content: protocol.Content{Release: b.Version.Release, Constraints: b.Constraints, Digest: b.Digest, Epoch: 1}}

	started := make(chan error, 1)
	go func() {
		_, err := c.StartAPIServer(cluster.APIServerConfig{Name: "new", Addr: addr})
		started <- err
	}()
	cluster.Await(t, "the built-in bundle to be in place", func(ctx context.Context) error {
		mark, err := r.Survey(ctx, protocol.Work{}, time.Time{})
		if err != nil {
			return err
		}
		if mark.FirstDone {
			t.Errorf("got %+v before the first pass was complete", mark)
		}
		out, err := r.Reconcile(ctx, work, longLease, time.Time{})
		if err != nil {
			return err
		}
		if !out.Complete {
			return errors.New(r.Report().Get().LastError)
		}
		return nil
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if mark, err := r.Survey(t.Context(), protocol.Work{}, time.Time{}); err != nil || !mark.FirstDone {
		t.Errorf("got %+v, %v, want it done", mark, err)
	}
}
