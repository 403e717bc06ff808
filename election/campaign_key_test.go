package election

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/protocol"
)

// While a leader stops, its job may still end and its key still exist. MayLead says so,
// and State does not.
func TestElection_mayLead(t *testing.T) {
	w := newWorld(t)
	ends := make(chan struct{})
	w.api.expect("reconcile", blocksUntil(make(chan struct{})), beforeItEnds(func() { <-ends }))
	n := w.start("a", "1.0.0", options{})
	w.api.awaitCalls(t, "reconcile", 1)
	if !n.mayLead.Get() {
		t.Error("it leads: got false")
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); n.stop() }()
	n.awaitState(protocol.Ineligible)
	if !n.mayLead.Get() {
		t.Error("its key exists: got false")
	}
	close(ends)
	await(t, n.mayLead, "the end of the key", func(may bool) bool { return !may })
	resp, err := w.raw.Get(t.Context(), keys.Leaders(), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) > 0 {
		t.Errorf("got %v, and it may not lead", resp.Kvs)
	}
	<-stopped
}
