package etcd

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"
)

// status answers requests for the status.
type statusServer struct {
	etcdserverpb.UnimplementedMaintenanceServer
}

func (statusServer) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{}, nil
}

// A connection without requests stays. An etcd server closes one on which a client sends
// pings while it has no request (too_many_pings).
func TestLink_idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 20)
		// As etcd's embed configures its server.
		server := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: embed.DefaultGRPCKeepAliveMinTime}))
		etcdserverpb.RegisterMaintenanceServer(server, statusServer{})
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()

		closed := false
		l := &link{endpoint: "passthrough:///etcd", lost: func(*link) { closed = true }}
		cfg := l.config(nil)
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		var err error
		if l.client, err = clientv3.New(cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := l.status(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if closed {
			t.Error("the connection has ended")
		}
		closeLinks([]*link{l})
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
