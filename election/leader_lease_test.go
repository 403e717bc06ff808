package election

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// While etcd is unreachable, a leader's pass is stopped before another node could
// lead, and nothing begins after that.
func TestElection_stopsWritingWithinItsLease(t *testing.T) {
	for _, cut := range []etcdtest.Cut{etcdtest.Blackhole, etcdtest.BlackholeRequests, etcdtest.BlackholeResponses, etcdtest.Reset} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			candidates := w.watchCandidates()
			passStopped := func() {
				if candidates.Get() == 0 {
					t.Error("etcd had ended the lease while the pass went on")
				}
			}
			w.api.expect("reconcile", blocksUntil(make(chan struct{})), beforeItEnds(passStopped))
			n := w.start("a", "1.0.0", options{ttl: 3 * time.Second})
			w.api.awaitCalls(t, "reconcile", 1)
			await(t, candidates, "the leader's key", func(n int) bool { return n == 1 })
			n.proxy.Cut(cut)
			n.awaitState(protocol.Ineligible)
			w.api.awaitCalls(t, cancelled, 1)
			await(t, candidates, "no candidate", func(n int) bool { return n == 0 })
			if got, want := w.api.jobs(), "a survey, a reconcile 1.0.0@1"; got != want {
				t.Errorf("calls: got %q, want %q", got, want)
			}
			if r := w.statusRevision(); r != 0 {
				t.Errorf("a status was written, at revision %d", r)
			}
		})
	}
}

// watchCandidates counts the candidates' keys in etcd, as a watch shows them whose
// connection is never cut.
func (w *world) watchCandidates() *event.Value[int] {
	count := event.New(0)
	client := newClient(w.T, w.server.Addr())
	stop := w.run(func(ctx context.Context) error {
		return client.Follow(ctx, keys.Leaders(), func(l etcd.Listing) { count.Set(len(l.KVs)) })
	})
	w.Cleanup(stop)
	return count
}
