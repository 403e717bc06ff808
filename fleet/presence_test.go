package fleet

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

func TestPresence_replacedOnThisMachine(t *testing.T) {
	server := etcdtest.New(t)
	older, newer := presenceOf(newClient(t, server.Endpoints()...), "older"), presenceOf(newClient(t, server.Endpoints()...), "newer")
	ended := make(chan error, 1)
	go func() { ended <- older.Run(t.Context()) }()
	has := func(lease clientv3.LeaseID) bool { return lease != clientv3.NoLease }
	await(t, older.Lease(), "the older's presence", has)
	run(t, newer.Run)
	var lost *DuplicateError
	if err := <-ended; !errors.As(err, &lost) || lost.Newcomer {
		t.Errorf("the older ended with %v", err)
	}
	if has(older.Lease().Get()) || !has(await(t, newer.Lease(), "the newer's presence", has)) {
		t.Error("the presence is not the newer's alone")
	}
}

// Two sidecars with one node ID on different machines read at the same moment that
// there is no presence, and both write. Exactly one must get the ID, each time.
// The guard of the write decides: without it, both would get the ID.
func TestPresence_guardsItsWrite(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	newPresence := func(machine string) *Presence {
		return NewPresence(PresenceConfig{
			Client: newClient(t, server.Endpoints()...), Node: "me", Instance: "on-" + machine, MachineID: machine,
			TTL: 30 * time.Second, Shown: event.New(Shown{}), Log: discard(),
		})
	}
	a, b := newPresence("a"), newPresence("b")
	withSessions(t, a, b, func(ctx context.Context, sa, sb *etcd.Session) {
		for round := range 200 {
			a.wrote, b.wrote = 0, 0
			if _, err := raw.Delete(ctx, keys.Presence("me")); err != nil {
				t.Fatal(err)
			}
			sa.Beat()
			sb.Beat()
			var errA, errB error
			var both sync.WaitGroup
			both.Go(func() { errA = a.put(ctx, sa, Shown{}) })
			both.Go(func() { errB = b.put(ctx, sb, Shown{}) })
			both.Wait()
			if unanswered(errA) || unanswered(errB) {
				continue // a busy machine: such a write may have won or lost
			}
			if (errA == nil) == (errB == nil) {
				t.Fatalf("round %d: exactly one must get the ID; got %v and %v", round, errA, errB)
			}
		}
	})
}

// A sidecar that exits because of another one with its node ID leaves a notice. The one
// that keeps the ID follows it, until the notice ends.
func TestPresence_notice(t *testing.T) {
	server := etcdtest.New(t)
	newPresence := func(machine string) *Presence {
		return NewPresence(PresenceConfig{
			Client: newClient(t, server.Endpoints()...), Node: "me", Instance: "on-" + machine, MachineID: machine, Host: "host-" + machine,
			TTL: 30 * time.Second, Shown: event.New(Shown{}), Log: discard(),
		})
	}
	keeps, exits := newPresence("a"), newPresence("b")
	run(t, keeps.Run)
	await(t, keeps.Lease(), "the presence", func(id clientv3.LeaseID) bool { return id != clientv3.NoLease })
	if got := keeps.Rival().Get(); got != (Rival{}) {
		t.Errorf("got the rival %+v before there was one", got)
	}
	var lost *DuplicateError
	if err := exits.Run(t.Context()); !errors.As(err, &lost) {
		t.Fatalf("got %v", err)
	}
	got := await(t, keeps.Rival(), "the notice", func(r Rival) bool { return r != Rival{} })
	if got.Where != "on another machine, host host-b" || got.At.IsZero() || exits.Rival().Get() != (Rival{}) {
		t.Errorf("got %+v, and %+v on the one that exits", got, exits.Rival().Get())
	}
	resp, err := server.Client(t).Get(t.Context(), keys.Duplicate("me"))
	if err != nil || len(resp.Kvs) != 1 || resp.Kvs[0].Lease == 0 {
		t.Fatalf("got %v, %v, want a notice that ends", resp, err)
	}
	if _, err := server.Client(t).Revoke(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	await(t, keeps.Rival(), "the end of the notice", func(r Rival) bool { return r == Rival{} })
}

// unanswered reports whether etcd did not decide about a write.
func unanswered(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

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
