package election

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// putEphemeral registers an ephemeral controller that no sidecar of the test runs.
func (w *world) putEphemeral(id, release string, after time.Duration) {
	w.Helper()
	w.put(keys.Node(protocol.NodeID(id)), fleet.Encode(protocol.Node{
		ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true}, Serves: true,
		Version: protocol.Version{Release: rel(w.T, release)}, ExpireAfter: after, Ephemeral: true,
	}))
}

// awaitDeleted returns when the record is missing.
func (w *world) awaitDeleted(id string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for range w.raw.Watch(ctx, keys.Node(protocol.NodeID(id)), clientv3.WithRev(1)) {
		if !w.exists(id) {
			return
		}
	}
	w.Fatalf("the record of %s was not deleted", id)
}

func (w *world) exists(id string) bool {
	w.Helper()
	resp, err := w.raw.Get(w.Context(), keys.Node(protocol.NodeID(id)), clientv3.WithCountOnly())
	if err != nil {
		w.Fatal(err)
	}
	return resp.Count > 0
}

// The leader deletes the record of an ephemeral node that has been gone for long
// enough, and of no other. Then nothing holds back the next upgrade.
func TestElection_deletesExpired(t *testing.T) {
	w := newWorld(t)
	w.putEphemeral("pod", "0.9.0", 2*time.Second)
	w.putExpiringRecord("machine", "1.0.0", 2*time.Second)
	w.putEphemeral("cut-off", "1.0.0", time.Hour)
	w.putStatus(doneAt(t, "0.9.0"))
	n := w.start("a", "1.0.0", options{a: "1.0.0"})
	n.awaitStep(protocol.StepAwait)
	w.awaitDeleted("pod")
	if s := n.awaitStatus(protocol.Done, "1.0.0"); s.MinCompatible != rel(t, "1.0.0") {
		t.Errorf("got %s", s)
	}
	if !w.exists("machine") || !w.exists("cut-off") {
		t.Errorf("machine: %t, cut-off: %t; want both", w.exists("machine"), w.exists("cut-off"))
	}
	in, err := fleet.List(t.Context(), newClient(t, w.server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range upgrade.Judge(upgrade.Facts{Status: w.view(), Fleet: in}).Obstacles {
		if o.Reason == warn.UpgradeUnderWay {
			t.Errorf("got the obstacle %+v", o)
		}
	}
}

// A node that was cut off for so long that its record was deleted registers again.
func TestElection_deletedNodeReturns(t *testing.T) {
	w := newWorld(t)
	w.putStatus(doneAt(t, "0.9.0"))
	b := w.start("b", "1.0.0", options{ttl: 3 * time.Second, expireAfter: 2 * time.Second, ephemeral: true})
	first := await(t, b.registrar.Registration(), "registered", func(r protocol.Registration) bool { return r.Matches })
	a := w.start("a", "1.1.0", options{})
	a.awaitState(protocol.Leading)
	b.proxy.Cut(etcdtest.Blackhole)
	w.awaitDeleted("b")
	if got := b.registrar.Registration().Get(); !got.Overdue || got.Matches {
		t.Errorf("the record of b is deleted while b shows %+v", got)
	}
	b.proxy.Restore()
	again := await(t, b.registrar.Registration(), "registered again", func(r protocol.Registration) bool { return r.Matches })
	if again.Revision <= first.Revision || !w.exists("b") {
		t.Errorf("got %+v after %+v", again, first)
	}
}

// More records than a leader deletes in one round go in several.
func TestElection_deletesMany(t *testing.T) {
	w := newWorld(t)
	const pods = 2*maxDeletions + 1
	for i := range pods {
		w.putEphemeral(string(rune('a'+i/10))+string(rune('0'+i%10)), "1.0.0", time.Second)
	}
	w.putStatus(doneAt(t, "1.0.0"))
	w.start("z", "1.0.0", options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	deleted := 0
	for resp := range w.raw.Watch(ctx, keys.Nodes(), clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithFilterPut()) {
		if deleted += len(resp.Events); deleted == pods {
			return
		}
	}
	t.Errorf("%d of %d records were deleted", deleted, pods)
}

// A deletion that fails is tried again, and holds nothing else back.
func TestDeleteExpired_fails(t *testing.T) {
	w := newWorld(t)
	w.putEphemeral("pod", "1.0.0", time.Second)
	w.withLeadership(localOf(t, "me", "1.0.0", "0.0.0"), func(ctx context.Context, l *leadership) {
		in, err := l.gather(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range in.Fleet.Records {
			expired := *r
			expired.Gone, expired.Alive = time.Second, r.ID == "me"
			in.Fleet.Records[i] = &expired
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		l.deleteExpired(over, in)
		if !w.exists("pod") || l.clock.deletions.due(l.clock.now) {
			t.Errorf("record: %t, another attempt at once: %t; want a pause", w.exists("pod"), l.clock.deletions.due(l.clock.now))
		}
		if next := l.clock.next(time.Time{}); next.IsZero() {
			t.Error("no other attempt is planned")
		}
		l.clock.now = l.clock.deletions.at
		l.deleteExpired(ctx, in)
		if w.exists("pod") || !l.clock.deletions.due(l.clock.now) {
			t.Errorf("record: %t after the second attempt", w.exists("pod"))
		}
	})
}
