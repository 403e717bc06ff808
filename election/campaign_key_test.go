package election

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
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

// A node that starts again may be eligible before its presence is in etcd. It enters the election at once when that is
// there, without the pause that follows a campaign.
func TestElection_waitsForPresence(t *testing.T) {
	session := event.New[*etcd.Session](nil)
	e := New(Config{Client: newClient(t, "127.0.0.1:1"), Local: event.New(protocol.Local{ID: "a"}), Session: session, TTL: time.Hour})
	ended := make(chan error, 1)
	go func() { ended <- e.once(t.Context()) }()
	var err error
	until(t, "the presence changes", func() bool {
		session.Set(nil)
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	pauses := backoff.Backoff{First: minCampaignPause, Max: maxCampaignPause}
	if e.slowDown(&pauses, 0, err); pauses.Pause() != 0 {
		t.Errorf("a pause of %s after %v", pauses.Pause(), err)
	}
	if e.slowDown(&pauses, 0, nil); pauses.Pause() != minCampaignPause {
		t.Errorf("a pause of %s after a campaign", pauses.Pause())
	}
	if e.slowDown(&pauses, 2*time.Hour, nil); pauses.Pause() != 0 {
		t.Errorf("a pause of %s after a campaign that worked", pauses.Pause())
	}
}
