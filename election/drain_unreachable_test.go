package election

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A graceful stop does not wait for an unreachable etcd: neither for the lease, an
// hour, nor for any request.
func TestElection_gracefulStopWithEtcdAway(t *testing.T) {
	cut := func(c etcdtest.Cut) func(*node) { return func(n *node) { n.proxy.Cut(c) } }
	for name, disconnect := range map[string]func(*node){
		"no answers":   cut(etcdtest.BlackholeResponses),
		"nothing":      cut(etcdtest.Blackhole),
		"reset":        cut(etcdtest.Reset),
		"etcd stopped": func(n *node) { n.server.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.api.expect("a reconcile", blocksUntil(make(chan struct{})))
			leader := w.start("a", "1.0.0", options{ttl: time.Hour})
			w.api.awaitCalls(t, "a reconcile", 1)
			candidate := w.start("b", "1.0.0", options{ttl: time.Hour})
			candidate.awaitState(protocol.Campaigning)
			for _, n := range []*node{candidate, leader} {
				disconnect(n)
			}
			for _, n := range []*node{candidate, leader} {
				stopped := make(chan struct{})
				go func() { defer close(stopped); n.stop() }()
				select {
				case <-stopped:
				case <-time.After(patience):
					t.Fatalf("%s does not stop", n.id)
				}
			}
			if got := w.api.count(cancelled); got != 1 {
				t.Errorf("%d passes were stopped, want that of the leader", got)
			}
		})
	}
}
