package fleet

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

const prefix = "/lockstep/"

var keys = keyspace.Under(prefix)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T, endpoints ...string) *etcd.Client {
	t.Helper()
	return clientWithin(t, 2*time.Second, endpoints...)
}

// clientWithin returns a client whose requests may take that long.
func clientWithin(t *testing.T, limit time.Duration, endpoints ...string) *etcd.Client {
	t.Helper()
	c, err := etcd.NewClient(etcd.Config{Endpoints: endpoints, Prefix: prefix, RequestTimeout: limit, Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func discard() *slog.Logger {
	return slog.New(slog.DiscardHandler)
}

// run runs a worker until the test ends, and waits for it.
func run(t *testing.T, worker func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := worker(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("worker ended: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// await returns the first value that ok accepts.
func await[T any](t *testing.T, v *event.Value[T], what string, ok func(T) bool) T {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		val, changed := v.Load()
		if ok(val) {
			return val
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: not seen in time; last: %+v", what, val)
		}
	}
}

func rel(t *testing.T, s string) protocol.Release {
	t.Helper()
	r, err := semver.ParseRelease(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func node(t *testing.T, id, release string) protocol.Node {
	t.Helper()
	return protocol.Node{
		ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true},
		Version: protocol.Version{Release: rel(t, release)},
	}
}

// put writes a key and returns the revision of the write.
func put(t *testing.T, c *clientv3.Client, key string, value []byte) int64 {
	t.Helper()
	resp, err := c.Put(t.Context(), key, string(value))
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func putNode(t *testing.T, c *clientv3.Client, n protocol.Node) int64 {
	t.Helper()
	return put(t, c, keys.Node(n.ID), Encode(n))
}

// check makes linearizable reads, as a session does, until one succeeds.
func check(t *testing.T, client *etcd.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if err := client.Check(ctx); err == nil {
			return
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// presenceOf returns a presence of node "me".
func presenceOf(client *etcd.Client, instance string) *Presence {
	return NewPresence(PresenceConfig{
		Client: client, Node: "me", Instance: instance, MachineID: "m", TTL: 3 * time.Second,
		Shown: event.New(Shown{}), Log: discard(),
	})
}

// registrarOf runs a registrar of node "me" of release 1.1.0.
func registrarOf(t *testing.T, client *etcd.Client) (*Registrar, *event.Value[protocol.Local]) {
	t.Helper()
	f := NewFollower(client)
	run(t, f.Run)
	local := event.New(protocol.Local{
		ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}, Digest: "d1",
		Constraints: protocol.Constraints{MinReconciler: rel(t, "1.0.0")},
	})
	presence := presenceOf(client, "i")
	run(t, presence.Run)
	r := NewRegistrar(RegistrarConfig{
		Presence: presence.Lease(), Client: client, Local: local, Address: "http://127.0.0.1:1", BootID: "boot", Fleet: f.Fleet(), Store: f.Store(), Trace: trace.ForTest(t), Log: discard(),
	})
	run(t, r.Run)
	return r, local
}

func confirmed(r protocol.Registration) bool { return r.Matches }

// record returns this node's record in etcd.
func record(t *testing.T, raw *clientv3.Client) protocol.Record {
	t.Helper()
	resp, err := raw.Get(t.Context(), keys.Node("me"))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		t.Fatal("no record")
	}
	return decodeRecord("me", etcd.NewKV(resp.Kvs[0]))
}

// awaitRecord watches this node's record until ok accepts it.
func awaitRecord(t *testing.T, raw *clientv3.Client, ok func(protocol.Record) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range raw.Watch(ctx, keys.Node("me"), clientv3.WithRev(1)) {
		if ok(record(t, raw)) {
			return
		}
	}
	t.Fatalf("the record did not become as wanted: %+v", record(t, raw))
}
