package cluster

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// A client never goes stale: it uses the servers of a membership before a user of it learns of
// that, while the node becomes a member, leaves, and follows the list.
func TestSharer(t *testing.T) {
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s := newSharer(client, slog.New(slog.DiscardHandler), Membership{})
	s.node, s.own = "n", "http://127.0.0.1:2"
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	seen := make(chan struct{}) // one for each value: the next one follows only then
	_, changed := s.value.Load()
	following.Go(func() {
		for event.Wait(ctx, changed) {
			var now Membership
			now, changed = s.value.Load()
			if got := client.Endpoints(); !slices.Equal(got, now.Servers) {
				t.Errorf("%v is published, and the client uses %v", now.Servers, got)
			}
			seen <- struct{}{}
		}
	})
	list := func(ids ...string) (all []members.Member) {
		for _, id := range ids {
			all = append(all, members.Member{ID: id, ClientURL: "http://127.0.0.1:" + id})
		}
		return all
	}
	want := func(local bool, ids ...string) {
		t.Helper()
		now, servers := s.value.Get(), []string{}
		for _, id := range ids {
			servers = append(servers, "http://127.0.0.1:"+id)
		}
		if got := slices.Sorted(slices.Values(client.Endpoints())); !slices.Equal(got, servers) || now.Local != local {
			t.Errorf("got %v, local %t, want %v, %t", got, now.Local, servers, local)
		}
		if local && client.Endpoints()[0] != s.own {
			t.Errorf("got %v, want its own member first", client.Endpoints())
		}
	}
	useOwn := func() { s.follow(datadir.Layout(t.TempDir()), datadir.Marker{Phase: datadir.Member}) }
	useOwn()
	<-seen
	for range 100 {
		s.list(list("2", "3", "4"))
		<-seen
		want(true, "2", "3", "4")
		s.list(list("2", "4", "5"))
		<-seen
		want(true, "2", "4", "5")
		s.useOthers()
		<-seen
		want(false, "4", "5")
		s.list(nil) // a list that was lost changes nothing
		want(false, "4", "5")
		useOwn()
		<-seen
	}
	cancel()
	following.Wait()
}

// A node that leaves, and knows no other server yet, does not take the servers from its services.
func TestSharer_leavesAlone(t *testing.T) {
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://127.0.0.1:2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	for phase, want := range map[membership.Phase]int{membership.Leaving: 1, membership.WithoutMember: 0} {
		s := newSharer(client, slog.New(slog.DiscardHandler), Membership{})
		s.own, s.others = "http://127.0.0.1:2", nil
		s.follow(datadir.Layout(t.TempDir()), datadir.Marker{Phase: datadir.Member})
		s.change(func(now *Membership) { now.Phase, s.used = phase, false })
		if now := s.value.Get(); len(now.Servers) != want || now.Local != (want > 0) {
			t.Errorf("%v: got %+v, want %d servers", phase, now, want)
		}
	}
}

// The last voter answers joins after it lost its role: without another voter it cannot leave.
func TestWhileMember(t *testing.T) {
	n := &node{parts: parts{shared: &sharer{value: event.New(Membership{})}}}
	ctx, cancel := context.WithCancel(t.Context())
	works := event.New(0)
	var working sync.WaitGroup
	working.Go(func() {
		_ = n.whileMember(ctx, func(ctx context.Context) error { // it ends with ctx
			works.Set(works.Get() + 1)
			<-ctx.Done()
			works.Set(-works.Get())
			return ctx.Err()
		})
	})
	defer func() { cancel(); working.Wait() }()
	limited, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	for i, tc := range []struct {
		phase membership.Phase
		works int // how often it began; negative: it ended
	}{
		{membership.Adding, 0}, {membership.Leaving, 1}, {membership.Working, 1}, {membership.WithoutMember, -1},
	} {
		n.shared.value.Set(Membership{Phase: tc.phase})
		for {
			now, changed := works.Load()
			if now == tc.works {
				break
			}
			if !event.Wait(limited, changed) {
				t.Fatalf("step %d: got %d, want %d", i, now, tc.works)
			}
		}
	}
}
