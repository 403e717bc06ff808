package stopguard

import (
	"context"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// start starts a member whose clients are served with these options, and returns a connection
// to it. The end of the server alone leaves clients connected, as at the moment when it stops.
func start(t *testing.T, options []grpc.ServerOption) (*embed.Etcd, *grpc.ClientConn) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.GRPCAdditionalServerOptions = options
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Clients[0].Addr().String()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // that its context has ended is intended
	return e, client.ActiveConnection()
}

func askStatus(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{}, grpc.WaitForReady(true))
	return err
}

func TestGuard(t *testing.T) {
	var g Guard
	e, conn := start(t, g.Options())
	if err := askStatus(t, conn); err != nil {
		t.Errorf("before it is watched: %v", err)
	}
	g.Watch(e.Server)
	if err := askStatus(t, conn); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	e.Server.Stop()
	if err := askStatus(t, conn); status.Code(err) != codes.Unavailable {
		t.Errorf("when it has stopped: got %v", err)
	}
}

// A request that is under way when the server stops panics, and is refused.
func TestGuard_underWay(t *testing.T) {
	var g Guard
	e, conn := start(t, nil)
	g.Watch(e.Server)
	if err := askStatus(t, conn); err != nil {
		t.Fatal(err)
	}
	_, err := g.answer(t.Context(), &etcdserverpb.StatusRequest{}, nil, func(context.Context, any) (any, error) {
		e.Server.Stop()
		panic("a closed database")
	})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	// Every other panic goes on.
	defer func() {
		if recover() == nil {
			t.Error("the panic is hidden")
		}
	}()
	_, _ = (&Guard{}).answer(t.Context(), &etcdserverpb.StatusRequest{}, nil, func(context.Context, any) (any, error) { panic("a fault") })
}

// TestUpstream shows the fault for which the guard exists (docs/upstream.md#etcd-status-after-stop).
func TestUpstream(t *testing.T) {
	var panicked atomic.Bool
	e, conn := start(t, []grpc.ServerOption{grpc.ChainUnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
			defer func() {
				if recover() != nil {
					panicked.Store(true)
					err = errStopping
				}
			}()
			return next(ctx, req)
		})})
	if err := askStatus(t, conn); err != nil {
		t.Fatal(err)
	}
	e.Server.Stop()
	if err := askStatus(t, conn); !panicked.Load() {
		t.Errorf("UPSTREAM HAS CHANGED: a server that has stopped answers %v, and does not panic. stopguard can be removed.", err)
	}
}
