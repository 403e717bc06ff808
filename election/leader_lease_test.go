package election

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// While etcd is unreachable, a leader's pass is stopped before another node could
// lead, and nothing begins after that.
func TestElection_stopsWritingWithinItsLease(t *testing.T) {
	for _, cut := range []etcdtest.Cut{etcdtest.Blackhole, etcdtest.BlackholeRequests, etcdtest.BlackholeResponses, etcdtest.Reset} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			testStopsWriting(t, cut)
		})
	}
}

func testStopsWriting(t *testing.T, cut etcdtest.Cut) {
	w := newWorld(t)
	candidates, stall := w.watchCandidates(), w.measureStalls()
	var tooLate atomic.Bool
	w.api.expect("reconcile", blocksUntil(make(chan struct{})), beforeItEnds(func() { tooLate.Store(candidates.Get() == 0) }))
	n := w.start("a", "1.0.0", options{ttl: 3 * time.Second})
	w.api.awaitCalls(t, "reconcile", 1)
	await(t, candidates, "the leader's key", func(n int) bool { return n == 1 })
	n.proxy.Cut(cut)
	jobs := w.api.jobs()
	n.awaitState(protocol.Ineligible)
	w.api.awaitCalls(t, cancelled, 1)
	await(t, candidates, "no candidate", func(n int) bool { return n == 0 })
	if got := w.api.jobs(); got != jobs {
		t.Errorf("calls: got %q, want no other than %q", got, jobs)
	}
	if r := w.statusRevision(); r != 0 {
		t.Errorf("a status was written, at revision %d", r)
	}
	// The leader's clock ends the lease a second before etcd does.
	const margin = time.Second
	switch late := tooLate.Load(); {
	case late && stall.Get() < margin/2:
		t.Error("etcd had ended the lease while the pass went on")
	case late:
		t.Logf("no verdict on the lease: this machine ran a timer %s late", stall.Get())
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

// measureStalls measures by how much this process ran a timer late, at most: no
// process can keep a deadline that is shorter.
func (w *world) measureStalls() *event.Value[time.Duration] {
	const tick = 20 * time.Millisecond
	worst := event.New(time.Duration(0))
	stop := w.run(func(ctx context.Context) error {
		for began := time.Now(); backoff.Sleep(ctx, tick); began = time.Now() {
			worst.Set(max(worst.Get(), time.Since(began)-tick))
		}
		return ctx.Err()
	})
	w.Cleanup(stop)
	return worst
}
