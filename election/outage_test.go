package election

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// etcd is off for longer than a lease lives, and then gives each lease its full TTL
// again. The leader has given up, and enters the queue again. The other candidate has kept
// its place, on its lease, and leads.
func TestElection_etcdRestarts(t *testing.T) {
	w := newWorld(t)
	const ttl = 6 * time.Second // a client may connect again only two seconds after etcd is back
	a := w.start("a", "1.0.0", options{ttl: ttl})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{ttl: ttl})
	b.awaitState(protocol.Campaigning)
	queue := await(t, b.election.queue, "two candidates", func(l etcd.Listing) bool { return len(l.KVs) == 2 })
	w.server.Stop()
	a.awaitState(protocol.Ineligible)
	etcdtest.AwaitSilence(t, func() time.Time { return b.election.cfg.Client.Contact().Get().Last }, ttl)
	if got := b.election.State().Get().Election; got != protocol.Campaigning {
		t.Errorf("while etcd is off: b is %s", got)
	}
	if err := w.server.Restart(); err != nil {
		t.Fatal(err)
	}
	await(t, b.election.queue, "a is behind b", func(l etcd.Listing) bool {
		return len(l.KVs) == 2 && l.KVs[0].Key == queue.KVs[1].Key && l.KVs[1].Key != queue.KVs[0].Key
	})
	if got := b.awaitState(protocol.Leading).Epoch; got != queue.KVs[1].CreateRevision {
		t.Errorf("b leads in epoch %d, want %d, that of the place it had", got, queue.KVs[1].CreateRevision)
	}
}
