package etcd_test

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// The library repeats a read to the only server while that has no leader. When the time is over
// before the library gives up, the error is what the server said, and not that the time is over.
func TestClient_noLeaderInTime(t *testing.T) {
	one := newMember(t, "one")
	one.start(t, "one=http://"+one.peer, embed.ClusterStateFlagNew)
	one.awaitReady(t)
	proxy := etcdtest.NewProxy(t, one.client)
	c, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://" + proxy.Addr()}, Prefix: "/p", RequestTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it has no request
	until(t, "a read", func() bool { return c.Check(t.Context()) == nil })
	one.fail(rpctypes.ErrGRPCNoLeader)
	before := one.failed.Load()
	read := make(chan error, 1)
	go func() {
		_, err := c.Get(t.Context(), "/p/key")
		read <- err
	}()
	// The client has the first answer before it asks for the second one, so it knows why at least. The
	// last question gets no answer.
	until(t, "the server is asked again", func() bool { return one.failed.Load() >= before+2 })
	proxy.Cut(etcdtest.Blackhole)
	if err := ends(t, "the read", func() error { return <-read }); !errors.Is(err, etcd.ErrNoLeader) {
		t.Errorf("got %v, want ErrNoLeader", err)
	}
}
