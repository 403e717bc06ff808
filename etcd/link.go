package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// link is the connection to one server. It connects with the first request.
type link struct {
	endpoint string
	client   *clientv3.Client
	lost     func(*link) // called when a connection ends
}

// dial returns a link to a server. It does not connect.
func (c *Client) dial(endpoint string) (*link, error) {
	l := &link{endpoint: endpoint, lost: c.lost}
	cfg := l.config(c.tls)
	if c.several {
		cfg.MaxUnaryRetries = 1 // do asks another server instead
	}
	var err error
	if l.client, err = clientv3.New(cfg); err != nil {
		return nil, fmt.Errorf("etcd client for %q: %w", endpoint, err)
	}
	return l, nil
}

// config returns how the link connects. tls is nil for none.
func (l *link) config(tls *fileCredentials) clientv3.Config {
	backoff := grpc.ConnectParams{MinConnectTimeout: dialTimeout}
	backoff.Backoff.BaseDelay = minReconnectDelay
	backoff.Backoff.Multiplier = 1.6
	backoff.Backoff.Jitter = 0.2
	backoff.Backoff.MaxDelay = maxReconnectDelay
	options := []grpc.DialOption{grpc.WithConnectParams(backoff), grpc.WithStatsHandler(l)}
	if tls != nil && strings.HasPrefix(l.endpoint, "https://") {
		options = append(options, grpc.WithTransportCredentials(tls))
	}
	return clientv3.Config{
		Endpoints:            []string{l.endpoint},
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		// etcd closes a connection on which pings arrive while no request runs. A connection
		// without one may end unnoticed: the next request sends a ping.
		PermitWithoutStream: false,
		DialOptions:         options,
		Logger:              zap.NewNop(),
	}
}

func closeLinks(all []*link) {
	for _, l := range all {
		// It returns the error of the client's context, which is intended.
		_ = l.client.Close()
	}
}

// exchanging is the context's key of the exchange.
type exchanging struct{}

// exchange is what a link saw of one attempt, in which the library may repeat the request.
type exchange struct {
	sent    atomic.Bool           // the request was sent
	refusal atomic.Pointer[error] // the server's latest one; nil: there was none
}

// track returns a context in which the link records what it sees of a request.
func track(ctx context.Context) (tracked context.Context, saw *exchange) {
	saw = new(exchange)
	return context.WithValue(ctx, exchanging{}, saw), saw
}

// TagRPC implements stats.Handler.
func (l *link) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler. A request is sent when its header is.
func (l *link) HandleRPC(ctx context.Context, event stats.RPCStats) {
	saw, tracked := ctx.Value(exchanging{}).(*exchange)
	if !tracked {
		return
	}
	switch event := event.(type) {
	case *stats.OutHeader:
		saw.sent.Store(true)
	case *stats.End:
		if refused(event.Error) {
			saw.refusal.Store(&event.Error)
		}
	}
}

// TagConn implements stats.Handler.
func (l *link) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (l *link) HandleConn(_ context.Context, event stats.ConnStats) {
	if _, is := event.(*stats.ConnEnd); is {
		l.lost(l)
	}
}
