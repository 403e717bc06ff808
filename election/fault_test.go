package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// until polls cond, and gives up the test where it does not come true.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// A leader whose lease can no longer be counted on writes no status, though etcd
// would take it: key, status and records are as the guard wants them.
func TestLeadership_writesOnlyWhileItsLeaseIsValid(t *testing.T) {
	w := newWorld(t)
	proxy := etcdtest.NewProxy(t, w.server.Addr())
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://" + proxy.Addr()}, Prefix: prefix, RequestTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := status.NewStore(client)
	e := New(Config{Client: client, Store: store, TTL: 2 * time.Second, Log: slog.New(slog.DiscardHandler)})
	step := protocol.Step{Kind: protocol.StepWrite, Status: protocol.Status{
		State: protocol.Done, Version: protocol.Version{Release: rel(t, "1.0.0")},
	}}
	err = client.WithSession(t.Context(), 2*time.Second, func(held context.Context, s *etcd.Session) error {
		key := keys.Leader(int64(s.Lease()))
		step.Guard.Epoch = w.put(key, []byte("a")) // not on the lease: it outlives it
		l := e.newLeadership(s, key, step.Guard.Epoch)
		proxy.Cut(etcdtest.Blackhole)
		<-held.Done()
		proxy.Restore()
		if s.Valid() {
			return errors.New("the session has ended and is valid")
		}
		// Not with held: that its requests fail is another guard.
		l.write(t.Context(), step)
		if r := w.statusRevision(); r != 0 {
			t.Errorf("the status was written, at %d, by a leader whose lease may be over", r)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	// That nothing but the lease stood in the way:
	err = client.WithSession(t.Context(), time.Minute, func(_ context.Context, s *etcd.Session) error {
		key := keys.Leader(int64(s.Lease()))
		step.Guard.Epoch = w.put(key, []byte("a"))
		l := e.newLeadership(s, key, step.Guard.Epoch)
		l.write(t.Context(), step)
		if w.statusRevision() == 0 {
			t.Error("a leader with a valid lease did not write either")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// With etcd away, a leader's pass is stopped before another could lead, and
// nothing begins after that.
func TestElection_stopsWritingWithinItsLease(t *testing.T) {
	for _, cut := range []etcdtest.Cut{etcdtest.Blackhole, etcdtest.BlackholeRequests, etcdtest.BlackholeResponses, etcdtest.Reset} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			candidates := func() int64 {
				resp, err := w.raw.Get(context.WithoutCancel(t.Context()), keys.Leaders(), clientv3.WithPrefix(), clientv3.WithCountOnly())
				if err != nil {
					t.Error(err)
					return 0
				}
				return resp.Count
			}
			w.api.set(func(a *api) {
				a.block = make(chan struct{})
				a.stopping = func() {
					if candidates() == 0 {
						t.Error("etcd had let the lease go while the pass went on")
					}
				}
			})
			n := w.start("a", "1.0.0", options{ttl: 3 * time.Second})
			n.awaitStep(protocol.StepReconcile)
			until(t, "a pass is under way", func() bool { return len(w.api.called()) == 2 })
			n.proxy.Cut(cut)
			n.awaitState(protocol.Ineligible)
			until(t, "the pass is stopped", func() bool { return w.api.stopped() == 1 })
			until(t, "the key is gone", func() bool { return candidates() == 0 })
			if got, want := fmt.Sprint(w.api.called()), "[a survey a reconcile 1.0.0@1]"; got != want {
				t.Errorf("calls: got %s, want %s", got, want)
			}
			if r := w.statusRevision(); r != 0 {
				t.Errorf("a status was written, at %d", r)
			}
		})
	}
}

// A graceful stop does not wait for an etcd that is away: not for the lease, a
// minute, nor for any request.
func TestElection_gracefulStopWithEtcdAway(t *testing.T) {
	away := map[string]func(*node){
		"no answers":     func(n *node) { n.proxy.Cut(etcdtest.BlackholeResponses) },
		"nothing":        func(n *node) { n.proxy.Cut(etcdtest.Blackhole) },
		"reset":          func(n *node) { n.proxy.Cut(etcdtest.Reset) },
		"it has stopped": func(n *node) { n.server.Stop() },
	}
	for name, cut := range away {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.api.set(func(a *api) { a.block = make(chan struct{}) })
			leader := w.start("a", "1.0.0", options{ttl: time.Minute})
			leader.awaitStep(protocol.StepReconcile)
			candidate := w.start("b", "1.0.0", options{ttl: time.Minute})
			candidate.awaitState(protocol.Campaigning)
			for _, n := range []*node{candidate, leader} {
				cut(n)
			}
			for _, n := range []*node{candidate, leader} {
				stopped := make(chan struct{})
				go func() { defer close(stopped); n.stop() }()
				select {
				case <-stopped:
				case <-time.After(20 * time.Second):
					t.Fatalf("%s does not stop", n.id)
				}
			}
			if got := w.api.stopped(); got != 1 {
				t.Errorf("%d passes were stopped, want that of the leader", got)
			}
		})
	}
}
