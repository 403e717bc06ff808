package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// duplicate is a sidecar with node ID "me", as the others of a test.
type duplicate struct {
	presence  *Presence
	registrar *Registrar
	ended     chan error // of the presence
}

func newDuplicate(t *testing.T, client *etcd.Client, release, machine string) *duplicate {
	t.Helper()
	f := NewFollower(client)
	run(t, f.Run)
	d := &duplicate{ended: make(chan error, 1)}
	d.presence = NewPresence(PresenceConfig{
		Client: client, Node: "me", Instance: release + " on " + machine, MachineID: machine, TTL: 30 * time.Second,
		Shown: event.New(Shown{}), Log: discard(),
	})
	d.registrar = NewRegistrar(RegistrarConfig{
		Client: client, Presence: d.presence.Lease(), Fleet: f.Fleet(), Store: f.Store(), Trace: trace.ForTest(t), BootID: "boot", Log: discard(),
		Local: event.New(protocol.Local{ID: "me", Version: protocol.Version{Release: rel(t, release)}}),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.ended <- d.presence.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	run(t, d.registrar.Run)
	return d
}

// history returns the releases that this node's record has contained, in order.
func history(t *testing.T, raw *clientv3.Client, from int64) []string {
	t.Helper()
	marker := put(t, raw, keys.Node("me")+"/end", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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

// Two sidecars with one node ID and different releases: the record has the release
// of the one that keeps the ID, even before the other one has exited.
func TestDuplicates_ofDifferentReleases(t *testing.T) {
	for _, releases := range [][2]string{{"1.0.0", "1.1.0"}, {"1.1.0", "1.0.0"}} {
		t.Run(fmt.Sprintf("on one machine, %s then %s: the newest process wins", releases[0], releases[1]), func(t *testing.T) {
			server := etcdtest.New(t)
			raw := server.Client(t)
			older := newDuplicate(t, newClient(t, server.Endpoints()...), releases[0], "m")
			await(t, older.registrar.Registration(), "the older", confirmed)
			newer := newDuplicate(t, newClient(t, server.Endpoints()...), releases[1], "m")
			await(t, newer.registrar.Registration(), "the newer", confirmed)
			var lost *DuplicateError
			if err := <-older.ended; !errors.As(err, &lost) || lost.Newcomer {
				t.Errorf("the older ended with %v", err)
			}
			await(t, older.registrar.Registration(), "the older is not registered", func(r protocol.Registration) bool { return !r.Matches })
			// Another client's write wakes both.
			n := record(t, raw).Node
			n.Roles.Worker = true
			putNode(t, raw, n)
			if got, want := history(t, raw, 1), fmt.Sprintf("[%s %s %s]", releases[0], releases[1], releases[1]); fmt.Sprint(got) != want {
				t.Errorf("the record contained %v, want %s", got, want)
			}
		})
	}
	t.Run("on two machines: the newcomer is refused", func(t *testing.T) {
		server := etcdtest.New(t)
		raw := server.Client(t)
		first := newDuplicate(t, newClient(t, server.Endpoints()...), "1.0.0", "m")
		was := await(t, first.registrar.Registration(), "the first", confirmed)
		newcomer := newDuplicate(t, newClient(t, server.Endpoints()...), "1.1.0", "elsewhere")
		var lost *DuplicateError
		if err := <-newcomer.ended; !errors.As(err, &lost) || !lost.Newcomer {
			t.Errorf("the newcomer ended with %v", err)
		}
		if got := history(t, raw, 1); fmt.Sprint(got) != "[1.0.0]" {
			t.Errorf("the record contained %v", got)
		}
		if got := first.registrar.Registration().Get(); got != was {
			t.Errorf("the first's registration became %+v", got)
		}
		if newcomer.registrar.Registration().Get().Matches {
			t.Error("the newcomer is registered")
		}
	})
}

// A restore of etcd brings back the presence of an instance that has ended. The one
// that runs replaces it, and does not take it for a newer one.
func TestDuplicates_broughtBack(t *testing.T) {
	p := &Presence{cfg: PresenceConfig{Node: "me", Instance: "mine", MachineID: "m"}, wrote: 20}
	other := protocol.Presence{Instance: "other", MachineID: "m"}
	if err := p.checkID(other, 10, time.Time{}); err != nil {
		t.Errorf("a presence from before this instance's: got %v", err)
	}
	if err, is := errors.AsType[*DuplicateError](p.checkID(other, 21, time.Time{})); !is || err.Newcomer {
		t.Errorf("a presence from after this instance's: got %v", err)
	}
	elsewhere := protocol.Presence{Instance: "other", MachineID: "another"}
	if err, is := errors.AsType[*DuplicateError](p.checkID(elsewhere, 10, time.Time{})); !is || !err.Newcomer {
		t.Errorf("a presence of another machine, from before: got %v", err)
	}
}
