// Package stopguard keeps an etcd member that stops from panicking
// (docs/upstream.md#etcd-status-after-stop). It owns what such a member answers to a request for
// its status, and starts no goroutine.
package stopguard

import (
	"context"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Guard is that of one member. Its zero value guards nothing until Watch.
type Guard struct {
	server atomic.Pointer[etcdserver.EtcdServer]
}

// Watch sets which server is guarded.
func (g *Guard) Watch(server *etcdserver.EtcdServer) { g.server.Store(server) }

// Options are GRPCAdditionalServerOptions of etcd's configuration.
func (g *Guard) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.answer)}
}

var errStopping = status.Error(codes.Unavailable, "the etcd member is stopping")

// answer refuses a request for the status of a server that stops. One that is under way then
// may panic.
func (g *Guard) answer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	if _, is := req.(*etcdserverpb.StatusRequest); !is {
		return next(ctx, req)
	}
	if g.stopping() {
		return nil, errStopping
	}
	defer func() {
		if !g.stopping() {
			return // a panic goes on
		}
		if recover() != nil {
			resp, err = nil, errStopping
		}
	}()
	return next(ctx, req)
}

func (g *Guard) stopping() bool {
	server := g.server.Load()
	if server == nil {
		return false
	}
	select {
	case <-server.StoppingNotify():
		return true
	default:
		return false
	}
}
