package election

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A store that goes back between two snapshots of a leader may have lost what a
// node wrote when it returned: absences counted before do not count any more.
func TestLeadership_storeWentBack(t *testing.T) {
	key := keys.Leader(1)
	w := &world{T: t, api: newAPI(t)}
	epoch := w.startOver("")
	for range 10 {
		w.put("/elsewhere", nil)
	}
	client := newClient(t, w.server.Addr())
	e := New(Config{Client: client, Local: event.New(protocol.Local{ID: "a"}), Applier: applier{w.api, "a"}})
	l := e.newLeadership(nil, key, epoch)
	l.beginRound()
	if _, err := l.gather(t.Context()); err != nil {
		t.Fatal(err)
	}

	w.server.Stop()
	w.startOver(w.server.Addr())
	l.clock.now = l.clock.now.Add(time.Hour)
	in, err := l.gather(t.Context())
	for err != nil && backoff.Sleep(t.Context(), etcdPause) {
		l.beginRound()
		in, err = l.gather(t.Context())
	}
	if r, found := in.Fleet.Record("dead"); err != nil || !found || r.Gone != 0 || client.Rewound().Get() != 1 {
		t.Errorf("got %+v, %v, want it counted from zero", r, err)
	}
}

// startOver starts an etcd at addr with nothing in it except a leader's key and the
// record of a dead node. It returns the epoch of that leader.
func (w *world) startOver(addr string) (epoch int64) {
	w.Helper()
	server, err := etcdtest.Start(etcdtest.Config{Addr: addr})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := server.Close(); err != nil {
			w.Error(err)
		}
	})
	w.server, w.raw = server, server.Client(w.T)
	epoch = w.put(keys.Leader(1), []byte("a"))
	w.putExpiringRecord("dead", "0.9.0", time.Minute)
	return epoch
}
