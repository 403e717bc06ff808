package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// Worked around: a watch on a member that lost its peers is silent for ever, unless
// it was opened with WithRequireLeader, which the library's election does not use
// (kubernetes #89488). All our requests and watches do (etcd/client.go, do; watch.go).
func TestWatch_hangsOnAMemberWithoutALeader(t *testing.T) {
	t.Parallel()
	addr, stopOther := twoMembers(t)
	client := etcdtest.Dial(t, "http://"+addr)
	plain := client.Watch(t.Context(), "/", clientv3.WithPrefix())
	asking := client.Watch(clientv3.WithRequireLeader(t.Context()), "/", clientv3.WithPrefix())
	if _, err := client.Put(t.Context(), "/k", ""); err != nil {
		t.Fatal(err)
	}
	for _, watch := range []clientv3.WatchChan{plain, asking} {
		if resp := <-watch; len(resp.Events) != 1 {
			t.Fatalf("got %+v, want one event", resp)
		}
	}
	stopOther()
	select {
	case resp := <-asking:
		if !errors.Is(resp.Err(), rpctypes.ErrNoLeader) {
			broken(t, "a watch that requires a leader ends with "+text(resp.Err()), "that our watches leave a member that lost its peers (etcd/watch.go)")
		}
	case <-time.After(time.Minute):
		broken(t, "a watch that requires a leader hangs on a member without one", "that our watches leave a member that lost its peers (etcd/watch.go)")
	}
	if resp, came := within(plain); came {
		gone(t, "a watch ends on a member without a leader ("+text(resp.Err())+")", "WithRequireLeader on each watch")
	}
}

// Worked around: not even WithRequireLeader ends a watch when no packet arrives. Ours
// pings each connection (etcd/client.go, keepAliveTime), and no decision waits for a
// watch (docs/protocol.md#snapshots).
func TestWatch_hangsWhenNothingArrives(t *testing.T) {
	r := newRig(t)
	watch := r.cut.Watch(clientv3.WithRequireLeader(t.Context()), "/", clientv3.WithPrefix())
	r.put("/k", "")
	receive(r, "an event", watch)
	r.proxy.Cut(etcdtest.Blackhole)
	if resp, came := within(watch); came {
		gone(t, "a watch ends when nothing arrives ("+text(resp.Err())+")", "pinging each connection")
	}
	r.proxy.Restore()
}

// Worked around: Watch returns only when the server has answered, however long that
// takes. Ours calls it on a goroutine of its own (etcd/watch.go).
func TestWatch_waitsForTheServer(t *testing.T) {
	t.Parallel()
	nowhere, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	client := etcdtest.Dial(t, "http://"+nowhere)
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan clientv3.WatchChan, 1)
	var watching sync.WaitGroup
	watching.Go(func() { returned <- client.Watch(ctx, "/", clientv3.WithPrefix()) })
	if _, came := within(returned); came {
		gone(t, "Watch returns before the server has answered", "the goroutine that opens a watch")
	}
	cancel()
	watching.Wait()
}

// twoMembers starts an etcd of two members, and returns the address of one and
// what stops the other: then it has no leader.
func twoMembers(t *testing.T) (addr string, stopOther func()) {
	t.Helper()
	var addrs [4]string
	for i := range addrs {
		var err error
		if addrs[i], err = etcdtest.FreeAddr(); err != nil {
			t.Fatal(err)
		}
	}
	members := fmt.Sprintf("a=http://%s,b=http://%s", addrs[0], addrs[1])
	a, _ := member(t, "a", addrs[0], addrs[2], members)
	b, stopOther := member(t, "b", addrs[1], addrs[3], members)
	for _, m := range []*embed.Etcd{a, b} {
		select {
		case <-m.Server.ReadyNotify():
		case <-time.After(time.Minute):
			t.Fatal("etcd is not ready")
		}
	}
	return addrs[2], stopOther
}

func member(t *testing.T, name, peer, client, members string) (e *embed.Etcd, stop func()) {
	t.Helper()
	peerURL, clientURL := url.URL{Scheme: "http", Host: peer}, url.URL{Scheme: "http", Host: client}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = name, t.TempDir()
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peerURL}, []url.URL{peerURL}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{clientURL}, []url.URL{clientURL}
	cfg.InitialCluster = members
	cfg.TickMs, cfg.ElectionMs = 50, 500
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(e.Close)
	t.Cleanup(stop)
	return e, stop
}
