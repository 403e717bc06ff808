package upstream

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// shared is the kube-apiserver of all tests that need one.
var shared cluster.Shared

func TestMain(m *testing.M) {
	result := m.Run()
	shared.Close()
	os.Exit(result)
}

// A test of something that does not happen, like a call that does not return,
// watches for this long. On an idle machine a fix of upstream shows at once. On a slow
// one such a test may pass although upstream is fixed, and never fails without a fix.
const grace = 2 * time.Second

// gone fails the test because upstream changed: a workaround may have become
// useless.
func gone(t *testing.T, change, workAround string) {
	t.Helper()
	t.Errorf("UPSTREAM HAS CHANGED: %s. %s can be removed or simplified: check it, then docs/upstream.md.", change, workAround)
}

// broken fails the test because upstream no longer does what we rely on.
func broken(t *testing.T, change, relies string) {
	t.Helper()
	t.Errorf("UPSTREAM HAS CHANGED: %s. NOT SAFE ANY MORE: %s.", change, relies)
}

// rig is an etcd, a client of it, and a proxy with a client behind it.
type rig struct {
	*testing.T
	server *etcdtest.Server
	raw    *clientv3.Client
	proxy  *etcdtest.Proxy
	cut    *clientv3.Client
	// watching counts the watches of cut that the server has begun.
	watching atomic.Int64
}

// newRig lets the test run in parallel: it waits most of the time.
func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	server := etcdtest.New(t)
	proxy := etcdtest.NewProxy(t, server.Addr())
	r := &rig{T: t, server: server, raw: server.Client(t), proxy: proxy}
	var err error
	r.cut, err = clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + proxy.Addr()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(r.countWatches)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cut.Close() }) // it reports the end of its own context
	return r
}

func (r *rig) countWatches(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, conn, method, opts...)
	return &countingStream{stream, &r.watching}, err
}

type countingStream struct {
	grpc.ClientStream
	watching *atomic.Int64
}

func (s *countingStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if resp, is := m.(*etcdserverpb.WatchResponse); is && err == nil && resp.Created {
		s.watching.Add(1)
	}
	return err
}

// campaignCut enters the election through the proxy, and returns when the
// candidate waits for the one before it.
func (r *rig) campaignCut(ctx context.Context, e *concurrency.Election, name string) <-chan error {
	r.Helper()
	out := r.campaign(ctx, e, name)
	r.until("the candidate to wait", func() bool { return r.watching.Load() > 0 })
	return out
}

func (r *rig) put(key, value string, opts ...clientv3.OpOption) int64 {
	r.Helper()
	resp, err := r.raw.Put(r.Context(), key, value, opts...)
	if err != nil {
		r.Fatal(err)
	}
	return resp.Header.Revision
}

// count returns how many keys there are with the prefix.
func (r *rig) count(prefix string) int64 {
	r.Helper()
	resp, err := r.raw.Get(r.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		r.Fatal(err)
	}
	return resp.Count
}

// left returns for how many full seconds etcd still keeps the lease; -1: it has
// ended.
func (r *rig) left(lease clientv3.LeaseID) int64 {
	r.Helper()
	resp, err := r.raw.TimeToLive(r.Context(), lease)
	if err != nil {
		r.Fatal(err)
	}
	return resp.TTL
}

// session returns a session of the library's, of 60 s unless an option says
// otherwise.
func (r *rig) session(client *clientv3.Client, opts ...concurrency.SessionOption) *concurrency.Session {
	r.Helper()
	s, err := concurrency.NewSession(client, append([]concurrency.SessionOption{concurrency.WithContext(r.Context())}, opts...)...)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

const electionPrefix = "/election"

// campaign enters the election and returns a channel with what Campaign returns.
func (r *rig) campaign(ctx context.Context, e *concurrency.Election, name string) <-chan error {
	r.Helper()
	before := r.count(electionPrefix)
	out := make(chan error, 1)
	go func() { out <- e.Campaign(ctx, name) }()
	r.until("a candidate's key", func() bool { return r.count(electionPrefix) > before })
	return out
}

// elect returns a candidate that leads.
func (r *rig) elect(s *concurrency.Session, name string) *concurrency.Election {
	r.Helper()
	e := concurrency.NewElection(s, electionPrefix)
	if err := receive(r, "Campaign of "+name, r.campaign(r.Context(), e, name)); err != nil {
		r.Fatal(err)
	}
	return e
}

// until polls cond, and fails the test if it does not become true.
func (r *rig) until(what string, cond func() bool) {
	r.Helper()
	cluster.Await(r.T, what, func(context.Context) error {
		if cond() {
			return nil
		}
		return errors.New("not yet")
	})
}

// receive returns a value of c, and fails the test if none arrives.
func receive[T any](r *rig, what string, c <-chan T) T {
	r.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		r.Fatalf("%s: not in time", what)
		panic("not reached")
	}
}

// within reports whether c has something before the grace is over.
func within[T any](c <-chan T) (val T, came bool) {
	select {
	case val = <-c:
		return val, true
	case <-time.After(grace):
		return val, false
	}
}
