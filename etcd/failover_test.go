package etcd_test

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// member is one of several etcd servers of a cluster, in this process.
type member struct {
	*embed.Etcd
	name, client, peer string // addresses
	// fault is what it answers to each request; nil: what etcd answers.
	// failed counts these answers to transactions and reads.
	fault  atomic.Pointer[error]
	failed atomic.Int64
	// stalled is closed when it answers again; until then it answers only requests for the
	// members. nil: it answers all. asked counts the requests for the members.
	stalled atomic.Pointer[chan struct{}]
	asked   atomic.Int64
}

// fail makes the member answer each request with an error.
func (m *member) fail(err error) { m.fault.Store(&err) }

func newMember(t testing.TB, name string) *member {
	t.Helper()
	m := &member{name: name}
	for _, addr := range []*string{&m.client, &m.peer} {
		var err error
		if *addr, err = etcdtest.FreeAddr(); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *member) endpoint() string { return "http://" + m.client }

// start starts the member, which becomes ready when enough others run.
func (m *member) start(t testing.TB, initial, state string) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = m.name, t.TempDir()
	client, peer := url.URL{Scheme: "http", Host: m.client}, url.URL{Scheme: "http", Host: m.peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster, cfg.ClusterState = initial, state
	cfg.TickMs, cfg.ElectionMs = 20, 200
	cfg.UnsafeNoFsync, cfg.EnableGRPCGateway = true, false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if fault := m.fault.Load(); fault != nil {
				switch info.FullMethod {
				case etcdserverpb.KV_Txn_FullMethodName, etcdserverpb.KV_Range_FullMethodName:
					m.failed.Add(1)
				}
				return nil, *fault
			}
			if info.FullMethod == etcdserverpb.Cluster_MemberList_FullMethodName {
				m.asked.Add(1)
			} else if stalled := m.stalled.Load(); stalled != nil {
				select {
				case <-*stalled:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if fault := m.fault.Load(); fault != nil {
				return *fault
			}
			return next(server, stream)
		}),
	}
	var err error
	if m.Etcd, err = embed.StartEtcd(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
}

// close can be called twice. A member that is not ready must be stopped first.
func (m *member) close() {
	select {
	case <-m.Server.ReadyNotify():
	default:
		m.Server.Stop()
	}
	m.Close()
}

func (m *member) awaitReady(t testing.TB) {
	t.Helper()
	select {
	case <-m.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatalf("%s is not ready", m.name)
	}
}

// newMembers starts a cluster of two voters and a learner.
func newMembers(t *testing.T) (one, two, learner *member) {
	t.Helper()
	one, two, learner = newMember(t, "one"), newMember(t, "two"), newMember(t, "learner")
	initial := "one=http://" + one.peer + ",two=http://" + two.peer
	one.start(t, initial, embed.ClusterStateFlagNew)
	two.start(t, initial, embed.ClusterStateFlagNew)
	one.awaitReady(t)
	two.awaitReady(t)
	raw := etcdtest.Dial(t, one.endpoint())
	// etcd refuses it until both voters have been connected for a while.
	until(t, "the learner is added", func() bool {
		_, err := raw.MemberAddAsLearner(t.Context(), []string{"http://" + learner.peer})
		return err == nil
	})
	learner.start(t, initial+",learner=http://"+learner.peer, embed.ClusterStateFlagExisting)
	learner.awaitReady(t)
	return one, two, learner
}

// attemptTimeout is far above an answer's time, and far below the request timeout.
const attemptTimeout = time.Second

func newClientOf(t *testing.T, endpoints ...string) *etcd.Client {
	t.Helper()
	c, err := etcd.NewClient(etcd.Config{Endpoints: endpoints, Prefix: "/p", RequestTimeout: 4 * requestTimeout, AttemptTimeout: attemptTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func writeKey(t *testing.T, c *etcd.Client, key string) error {
	t.Helper()
	_, err := c.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut(key, "value")}, nil)
	return err
}

// use holds a session and follows keys, lets spoil make the first server unusable, and
// fails the test unless both go on.
func use(t *testing.T, c *etcd.Client, raw *clientv3.Client, spoil func()) {
	t.Helper()
	err := c.WithSession(t.Context(), 9*time.Second, func(held context.Context, s *etcd.Session) error {
		defer beating(held, s)()
		ctx, cancel := context.WithCancel(held)
		seen := make(chan etcd.Listing, 1) // the newest
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			// It returns when ctx ends.
			_ = c.Follow(ctx, "/p/", func(l etcd.Listing) {
				select {
				case <-seen:
				default:
				}
				seen <- l
			})
		}()
		defer func() {
			cancel()
			<-followed
		}()
		until(t, "a listing", func() bool { return len(seen) == 1 })
		spoil()
		first := s.ValidUntil()
		if _, err := raw.Put(held, "/p/changed", ""); err != nil {
			return err
		}
		until(t, "the change is seen, and the session goes on", func() bool {
			l := <-seen
			defer func() { seen <- l }()
			return len(l.KVs) > 0 && l.KVs[0].Key == "/p/changed" && s.ValidUntil().After(first) || held.Err() != nil
		})
		until(t, "a write", func() bool { return writeKey(t, c, "/q/own") == nil })
		return context.Cause(held)
	})
	if err != nil {
		t.Error(err)
	}
}

// A server is not left because people, or other sidecars, ask for something else: how
// another server is, or a change of the members that the cluster refuses.
func staysWithAServer(t *testing.T, one, two, learner *member) {
	t.Helper()
	c := newClientOf(t, one.endpoint(), two.endpoint())
	stays := func(after string) {
		t.Helper()
		if got := c.Endpoint(); got != one.endpoint() {
			t.Errorf("the client uses %s after %s", got, after)
		}
	}
	for _, endpoint := range []string{one.endpoint(), two.endpoint(), learner.endpoint()} {
		got, err := c.MemberStatus(t.Context(), endpoint)
		if err != nil || got.ID == 0 || got.Learner != (endpoint == learner.endpoint()) {
			t.Errorf("the status of %s: %+v, %v", endpoint, got, err)
		}
		stays("the status of " + endpoint)
	}
	one.fail(rpctypes.ErrGRPCUnhealthy)
	if _, err := c.AddLearner(t.Context(), "http://127.0.0.1:1"); !errors.Is(err, etcd.ErrUnhealthy) {
		t.Errorf("got %v, want ErrUnhealthy", err)
	}
	stays("a refusal")
	one.fault.Store(nil)
	if err := c.Check(t.Context()); err != nil {
		t.Error(err)
	}
	stays("a check")
}

// A server that is a learner, has no leader, does not answer or has ended is left for
// another. Sessions and watches go on, and the store does not seem to go back.
func TestClient_leavesAServer(t *testing.T) {
	one, two, learner := newMembers(t)
	raw := etcdtest.Dial(t, two.endpoint())
	check := func(t *testing.T, c *etcd.Client, first string) {
		t.Helper()
		if c.Endpoint() == first {
			t.Error("the server is still in use")
		}
		if n := c.Rewound().Get(); n != 0 {
			t.Errorf("the store went back %d times", n)
		}
	}
	t.Run("questions about others", func(t *testing.T) { staysWithAServer(t, one, two, learner) })
	t.Run("a learner", func(t *testing.T) {
		c := newClientOf(t, learner.endpoint(), two.endpoint())
		if err := writeKey(t, c, "/q/learner"); err != nil {
			t.Error(err)
		}
		use(t, c, raw, func() {})
		check(t, c, learner.endpoint())
	})
	t.Run("no leader, and it returns", func(t *testing.T) {
		c := newClientOf(t, one.endpoint(), two.endpoint())
		use(t, c, raw, func() { one.fail(rpctypes.ErrGRPCNoLeader) })
		check(t, c, one.endpoint())
		one.fault.Store(nil)
		until(t, "the first server is used again", func() bool {
			return c.Check(t.Context()) == nil && c.Endpoint() == one.endpoint()
		})
	})
	t.Run("it was removed from the cluster", func(t *testing.T) {
		c := newClientOf(t, one.endpoint(), two.endpoint())
		use(t, c, raw, func() { one.fail(status.Error(codes.Unknown, "raft: stopped")) })
		check(t, c, one.endpoint())
		one.fault.Store(nil)
	})
	for name, cut := range map[string]etcdtest.Cut{"no answer": etcdtest.Blackhole, "half an answer": etcdtest.BlackholeResponses, "reset": etcdtest.Reset} {
		t.Run(name, func(t *testing.T) {
			proxy := etcdtest.NewProxy(t, one.client)
			c := newClientOf(t, "http://"+proxy.Addr(), learner.endpoint(), two.endpoint())
			use(t, c, raw, func() { proxy.Cut(cut) })
			check(t, c, "http://"+proxy.Addr())
		})
	}
	t.Run("it was never there", func(t *testing.T) {
		addr, err := etcdtest.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		c := newClientOf(t, "http://"+addr, two.endpoint())
		if err := writeKey(t, c, "/q/absent"); err != nil {
			t.Errorf("a write that was not sent is not repeated: %v", err)
		}
		check(t, c, "http://"+addr)
	})
}

// A read that failed because the leader changed is repeated, also when there is only one
// server. A write is not: it may have been carried out.
func TestClient_leaderChanges(t *testing.T) {
	one := newMember(t, "one")
	one.start(t, "one=http://"+one.peer, embed.ClusterStateFlagNew)
	one.awaitReady(t)
	c, err := etcd.NewClient(etcd.Config{Endpoints: []string{one.endpoint()}, RequestTimeout: 4 * requestTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it has no request
	one.fail(rpctypes.ErrGRPCLeaderChanged)
	if err := writeKey(t, c, "/q/once"); !errors.Is(err, rpctypes.ErrLeaderChanged) {
		t.Errorf("a write: got %v", err)
	}
	before := one.failed.Load()
	read := make(chan error, 1)
	go func() {
		_, err := c.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpGet("/q/once")}, nil)
		read <- err
	}()
	until(t, "the read fails", func() bool { return one.failed.Load() > before })
	one.fault.Store(nil)
	if err := <-read; err != nil {
		t.Errorf("a read: %v", err)
	}
}

// A write that a server may have carried out is not repeated: the caller decides.
func TestClient_writesOnce(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	proxy := etcdtest.NewProxy(t, server.Addr())
	c := newClientOf(t, "http://"+proxy.Addr(), server.Endpoints()[0])
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Cut(etcdtest.BlackholeResponses)
	if err := writeKey(t, c, "/q/once"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	resp, err := raw.Get(t.Context(), "/q/once")
	if err != nil || len(resp.Kvs) != 1 || resp.Kvs[0].Version != 1 {
		t.Errorf("got %v, %v", resp, err)
	}
	if err := writeKey(t, c, "/q/once"); err != nil {
		t.Errorf("the next write: %v", err)
	}
	if c.Endpoint() != server.Endpoints()[0] {
		t.Error("the silent server is still in use")
	}
}

// The endpoints are replaced while a client is used. What is followed goes on.
func TestClient_SetEndpoints(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	first, second := etcdtest.NewProxy(t, server.Addr()), etcdtest.NewProxy(t, server.Addr())
	c := newClientOf(t, "http://"+first.Addr())
	use(t, c, raw, func() {
		if err := c.SetEndpoints([]string{"http://" + second.Addr()}); err != nil {
			t.Error(err)
		}
		first.Cut(etcdtest.Reset)
	})
	if got := c.Endpoint(); got != "http://"+second.Addr() {
		t.Errorf("got %s", got)
	}
	if err := c.SetEndpoints(nil); err == nil {
		t.Error("no endpoint is accepted")
	}
	// One that stays in use is not left because another one is preferred.
	if err := c.SetEndpoints([]string{"http://" + first.Addr(), "http://" + second.Addr()}); err != nil {
		t.Fatal(err)
	}
	if got := c.Endpoint(); got != "http://"+second.Addr() {
		t.Errorf("got %s", got)
	}
}

// No server runs for so long that an attempt may take as long as a request. Then the one
// that is not in use runs again: the client finds it.
func TestClient_findsServerAfterLongSilence(t *testing.T) {
	t.Parallel()
	servers := map[string]*etcdtest.Server{}
	var endpoints []string
	for range 2 {
		server := etcdtest.New(t)
		server.Stop()
		endpoint := server.Endpoints()[0]
		servers[endpoint], endpoints = server, append(endpoints, endpoint)
	}
	c, err := etcd.NewClient(etcd.Config{Endpoints: endpoints, Prefix: "/p", RequestTimeout: time.Second, AttemptTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for began := time.Now(); time.Since(began) < 5*time.Second; {
		if err := writeKey(t, c, "/p/x"); err == nil {
			t.Fatal("a server answered")
		}
	}
	for endpoint, server := range servers {
		if endpoint != c.Endpoint() {
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "a write is answered", func() bool { return writeKey(t, c, "/p/x") == nil })
}
