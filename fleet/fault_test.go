package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Two sidecars with one node ID on different machines look at the same moment,
// find nobody, and both write: one of them has to lose, each time. The guard of
// the write is what decides: without it, both believe that the ID is theirs.
func TestPresence_guardsItsWrite(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	twin := func(machine string) *Presence {
		return NewPresence(PresenceConfig{
			Client: newClient(t, server.Endpoints()...), Node: "me", Instance: "on-" + machine, MachineID: machine,
			TTL: 30 * time.Second, Says: event.New(Says{}), Log: discard(),
		})
	}
	a, b := twin("a"), twin("b")
	withSessions(t, a, b, func(ctx context.Context, sa, sb *etcd.Session) {
		for round := range 200 {
			a.held, b.held = false, false
			if _, err := raw.Delete(ctx, keys.Presence("me")); err != nil {
				t.Fatal(err)
			}
			sa.Beat()
			sb.Beat()
			var errA, errB error
			var both sync.WaitGroup
			both.Go(func() { errA = a.put(ctx, sa, Says{}) })
			both.Go(func() { errB = b.put(ctx, sb, Says{}) })
			both.Wait()
			if (errA == nil) == (errB == nil) {
				t.Fatalf("round %d: of two twins, one has to get the ID; got %v and %v", round, errA, errB)
			}
		}
	})
}

// withSessions runs f with a session for each of two presences.
func withSessions(t *testing.T, a, b *Presence, f func(ctx context.Context, sa, sb *etcd.Session)) {
	t.Helper()
	err := a.cfg.Client.WithSession(t.Context(), a.cfg.TTL, func(ctx context.Context, sa *etcd.Session) error {
		return b.cfg.Client.WithSession(ctx, b.cfg.TTL, func(ctx context.Context, sb *etcd.Session) error {
			f(ctx, sa, sb)
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// The record is written only over the one that was judged.
func TestRegistrar_guardsItsWrite(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	client := newClient(t, server.Endpoints()...)
	lease, err := raw.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Put(t.Context(), keys.Presence("me"), "", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	r := NewRegistrar(RegistrarConfig{
		Client: client, Presence: event.New(lease.ID), BootID: "boot", Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")}}),
	})
	judged := putNode(t, raw, node(t, "me", "1.0.0"))
	people := node(t, "me", "1.0.0")
	people.Roles = protocol.Roles{Worker: true}
	changed := putNode(t, raw, people)
	if err := r.write(t.Context(), protocol.Roles{Controller: true}, judged); !errors.Is(err, errChanged) {
		t.Errorf("got %v, want errChanged", err)
	}
	if got := record(t, raw); got.Revision != changed || got.Node.Roles != people.Roles {
		t.Errorf("the roles that people set were overwritten: %+v", got)
	}
}

// An etcd restored from a backup that has this node's record as it stands: only
// that the store went back makes the sidecar register again. Whatever else was
// written since the backup is gone, and the gate must not rest on it.
func TestRegistrar_restoredWithItsRecord(t *testing.T) {
	data, backup := t.TempDir(), t.TempDir()+"/backup"
	server, err := etcdtest.Start(etcdtest.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client := newClient(t, server.Endpoints()...)
	r, _ := registrarOf(t, client)
	first := await(t, r.Registration(), "the first registration", confirmed)

	server.Stop()
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	raw := server.Client(t)
	var newest int64
	for range 50 {
		newest = put(t, raw, "/elsewhere", nil)
	}
	check(t, client)
	await(t, client.Contact(), "knows how far the store was", func(c etcd.Contact) bool { return c.Revision >= newest })
	if got := r.Registration().Get(); got != first {
		t.Fatalf("registered again before the restore: %+v, then %+v", first, got)
	}

	addr := server.Addr()
	server.Stop()
	restored, err := etcdtest.Start(etcdtest.Config{Dir: backup, Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := restored.Close(); err != nil {
			t.Error(err)
		}
	})
	check(t, client)
	await(t, r.Registration(), "registered again", func(r protocol.Registration) bool {
		return r.Confirmed && r.Revision != first.Revision
	})
}

// history returns what the releases in the own record were, one after another.
func history(t *testing.T, raw *clientv3.Client, from int64) []string {
	t.Helper()
	marker := put(t, raw, keys.Node("me")+"/end", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out []string
	for resp := range raw.Watch(ctx, keys.Node("me"), clientv3.WithPrefix(), clientv3.WithRev(from)) {
		for _, ev := range resp.Events {
			if ev.Kv.ModRevision == marker {
				return out
			}
			out = append(out, decodeRecord("me", etcd.NewKV(ev.Kv)).Node.Version.Release.String())
		}
	}
	t.Fatal("the history did not end")
	return nil
}

// twin is a sidecar with node ID "me".
type twin struct {
	presence  *Presence
	registrar *Registrar
	ended     chan error // of the presence
}

func newTwin(t *testing.T, client *etcd.Client, release, machine string) *twin {
	t.Helper()
	f := NewFollower(client)
	run(t, f.Run)
	tw := &twin{ended: make(chan error, 1)}
	tw.presence = NewPresence(PresenceConfig{
		Client: client, Node: "me", Instance: release + " on " + machine, MachineID: machine, TTL: 30 * time.Second,
		Says: event.New(Says{}), Log: discard(),
	})
	tw.registrar = NewRegistrar(RegistrarConfig{
		Client: client, Presence: tw.presence.Lease(), Fleet: f.Fleet(), BootID: "boot", Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, release)}}),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { tw.ended <- tw.presence.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	run(t, tw.registrar.Run)
	return tw
}

// Twins of different releases: the record tells one release at a time, and never
// that of the one that lost, also while that one has not exited yet.
func TestTwins_ofDifferentReleases(t *testing.T) {
	for _, releases := range [][2]string{{"1.0.0", "1.1.0"}, {"1.1.0", "1.0.0"}} {
		t.Run(fmt.Sprintf("on one machine, %s then %s: the newest process wins", releases[0], releases[1]), func(t *testing.T) {
			server := etcdtest.New(t)
			raw := server.Client(t)
			older := newTwin(t, newClient(t, server.Endpoints()...), releases[0], "m")
			await(t, older.registrar.Registration(), "the older", confirmed)
			newer := newTwin(t, newClient(t, server.Endpoints()...), releases[1], "m")
			await(t, newer.registrar.Registration(), "the newer", confirmed)
			var duplicate *DuplicateError
			if err := <-older.ended; !errors.As(err, &duplicate) || duplicate.Newcomer {
				t.Errorf("the older ended with %v", err)
			}
			await(t, older.registrar.Registration(), "the older knows", func(r protocol.Registration) bool { return !r.Confirmed })
			// Somebody's write wakes both.
			n := record(t, raw).Node
			n.Roles.Worker = true
			putNode(t, raw, n)
			if got, want := history(t, raw, 1), fmt.Sprintf("[%s %s %s]", releases[0], releases[1], releases[1]); fmt.Sprint(got) != want {
				t.Errorf("the record told %v, want %s", got, want)
			}
		})
	}
	t.Run("on two machines: the newcomer is refused", func(t *testing.T) {
		server := etcdtest.New(t)
		raw := server.Client(t)
		first := newTwin(t, newClient(t, server.Endpoints()...), "1.0.0", "m")
		was := await(t, first.registrar.Registration(), "the first", confirmed)
		newcomer := newTwin(t, newClient(t, server.Endpoints()...), "1.1.0", "elsewhere")
		var duplicate *DuplicateError
		if err := <-newcomer.ended; !errors.As(err, &duplicate) || !duplicate.Newcomer {
			t.Errorf("the newcomer ended with %v", err)
		}
		if got := history(t, raw, 1); fmt.Sprint(got) != "[1.0.0]" {
			t.Errorf("the record told %v", got)
		}
		if got := first.registrar.Registration().Get(); got != was {
			t.Errorf("the first's registration became %+v", got)
		}
		if newcomer.registrar.Registration().Get().Confirmed {
			t.Error("the newcomer is registered")
		}
	})
}
