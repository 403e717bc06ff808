package fleet

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// etcd is off for longer than a lease lives, and then gives each lease its full TTL
// again. The presences go on with theirs: if all sidecars wrote theirs again, on new
// leases, an etcd that many of them share would have work for longer than a lease lives.
func TestPresence_etcdRestarts(t *testing.T) {
	server := etcdtest.New(t)
	client := newClient(t, server.Endpoints()...)
	const ttl = 6 * time.Second // a client may connect again only two seconds after etcd is back
	p := NewPresence(PresenceConfig{
		Client: client, Node: "me", Instance: "i", MachineID: "m", TTL: ttl, Shown: event.New(Shown{}), Log: discard(),
	})
	run(t, p.Run)
	lease := await(t, p.Lease(), "the presence", func(lease clientv3.LeaseID) bool { return lease != clientv3.NoLease })
	server.Stop()
	etcdtest.AwaitSilence(t, func() time.Time { return client.Contact().Get().Last }, ttl)
	if got := p.Lease().Get(); got != lease {
		t.Errorf("while etcd is off: got lease %d, want %d", got, lease)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	// The lease lives on for more than a TTL: the presence keeps it alive.
	back := time.Now()
	await(t, client.Contact(), "etcd answers for a TTL", func(c etcd.Contact) bool { return c.Connected && c.Last.Sub(back) > ttl })
	raw := server.Client(t)
	resp, err := raw.Get(t.Context(), keyspace.Under(client.Prefix()).Presence("me"))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != 1 || resp.Kvs[0].Version != 1 || resp.Kvs[0].Lease != int64(lease) {
		t.Errorf("got %v, want the presence as it was first written", resp.Kvs)
	}
	all, err := raw.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []clientv3.LeaseStatus{{ID: lease}}; !slices.Equal(all.Leases, want) {
		t.Errorf("got leases %v, want %v", all.Leases, want)
	}
}
