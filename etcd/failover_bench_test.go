package etcd_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// failoverWindow is for how long a client is watched after the fault: longer than the keepalive
// of a connection.
const failoverWindow = 20 * time.Second

// reader is what BenchmarkFailover compares: reads, and a watch of one prefix.
type reader struct {
	get    func(context.Context) error
	follow func(ctx context.Context, seen func(value string)) // until ctx ends
}

// BenchmarkFailover compares this package with the balancer of clientv3, whose connections have the
// same times (docs/adr/0022-one-etcd-server-at-a-time.md). The first of three members stops
// answering in four ways. For 20 s a client reads ten times a second, each read may take a second, and
// another member is written ten times a second. Reported are the seconds until the last read that failed,
// how many failed, and the longest time between two changes that a watch reported.
func BenchmarkFailover(b *testing.B) {
	for _, fault := range []struct {
		name string
		do   func(*member, *etcdtest.Proxy)
	}{
		{"refused", func(_ *member, p *etcdtest.Proxy) { p.Cut(etcdtest.Reset) }},
		{"mute", func(_ *member, p *etcdtest.Proxy) { p.Cut(etcdtest.Blackhole) }},
		{"answersLost", func(_ *member, p *etcdtest.Proxy) { p.Cut(etcdtest.BlackholeResponses) }},
		{"stalled", func(m *member, _ *etcdtest.Proxy) {
			never := make(chan struct{})
			m.stalled.Store(&never)
		}},
	} {
		for _, client := range []struct {
			name string
			open func(*testing.B, []string) reader
		}{{"lockstep", lockstepReader}, {"clientv3", clientv3Reader}} {
			b.Run(fault.name+"/"+client.name, func(b *testing.B) {
				for range b.N {
					failover(b, fault.do, client.open)
				}
			})
		}
	}
}

func failover(b *testing.B, fault func(*member, *etcdtest.Proxy), open func(*testing.B, []string) reader) {
	b.Helper()
	members := []*member{newMember(b, "one"), newMember(b, "two"), newMember(b, "three")}
	var initial []string
	for _, m := range members {
		initial = append(initial, m.name+"=http://"+m.peer)
	}
	var endpoints []string
	var first *etcdtest.Proxy
	for _, m := range members {
		m.start(b, strings.Join(initial, ","), embed.ClusterStateFlagNew)
		proxy := etcdtest.NewProxy(b, m.client)
		endpoints = append(endpoints, "http://"+proxy.Addr())
		if first == nil {
			first = proxy
		}
	}
	for _, m := range members {
		m.awaitReady(b)
	}
	r := open(b, endpoints)
	ctx, cancel := context.WithTimeout(b.Context(), failoverWindow+2*time.Second)
	defer cancel()
	writer := etcdtest.Dial(b, members[1].endpoint())

	var running sync.WaitGroup
	var began, last time.Time
	var longest time.Duration
	var mu sync.Mutex
	running.Go(func() {
		r.follow(ctx, func(string) {
			mu.Lock()
			defer mu.Unlock()
			if !last.IsZero() && !began.IsZero() {
				longest = max(longest, time.Since(last))
			}
			last = time.Now()
		})
	})
	running.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; {
			if _, err := writer.Put(ctx, "/p/x", time.Now().String()); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
			<-tick.C
		}
	})
	until(b, "both work", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return r.get(ctx) == nil && !last.IsZero()
	})
	mu.Lock()
	began = time.Now()
	mu.Unlock()
	fault(members[0], first)

	var failed int
	var recovered time.Duration
	for tick := time.NewTicker(100 * time.Millisecond); time.Since(began) < failoverWindow; <-tick.C {
		if r.get(ctx) != nil {
			failed++
			recovered = time.Since(began)
		}
	}
	cancel()
	running.Wait()
	mu.Lock()
	defer mu.Unlock()
	longest = max(longest, time.Since(last)-2*time.Second)
	b.ReportMetric(recovered.Seconds(), "s-until-last-failure")
	b.ReportMetric(float64(failed), "failed")
	b.ReportMetric(longest.Seconds(), "s-watch-silent")
}

const readTimeout = time.Second

func lockstepReader(b *testing.B, endpoints []string) reader {
	b.Helper()
	c, err := etcd.NewClient(etcd.Config{Endpoints: endpoints, Prefix: "/p", RequestTimeout: readTimeout, AttemptTimeout: readTimeout / 2})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	return reader{
		get: func(ctx context.Context) error {
			_, err := c.Get(ctx, "/p/x")
			return err
		},
		follow: func(ctx context.Context, seen func(string)) {
			go func() { _ = c.KeepChecking(ctx, time.Second) }() // it ends with ctx
			_ = c.Follow(ctx, "/p/", func(l etcd.Listing) {      // it ends with ctx
				for _, kv := range l.KVs {
					seen(string(kv.Value))
				}
			})
		},
	}
}

func clientv3Reader(b *testing.B, endpoints []string) reader {
	b.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 5 * time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		Logger: zap.NewNop(),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() }) // it returns that its context has ended
	return reader{
		get: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			_, err := c.Get(ctx, "/p/x")
			return err
		},
		follow: func(ctx context.Context, seen func(string)) {
			for resp := range c.Watch(clientv3.WithRequireLeader(ctx), "/p/", clientv3.WithPrefix()) {
				for _, e := range resp.Events {
					seen(string(e.Kv.Value))
				}
			}
		},
	}
}
