package quorum

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/test/members"
)

// The keeper on the node of etcd's leader works alone: others know less of a learner, and two of them
// would act at the same moment. If it does nothing to a learner that could vote, as while its sidecar
// hangs, the keeper of another voter asks in its place.
func TestKeeper_inPlaceOfTheLeader(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	keeper := func(of *members.Node) *Keeper {
		return NewKeeper(KeeperConfig{Client: client, Local: func() string { return of.ClientURL }, Log: slog.New(slog.DiscardHandler)})
	}
	round := func(k *Keeper) {
		t.Helper()
		if _, err := k.round(t.Context()); err != nil {
			t.Log(err) // etcd wants five seconds between two voters
		}
	}
	own, b, d := keeper(c.First), c.Node("b"), c.Node("d")
	join(t, client, b)
	other := keeper(b)
	for range 3 {
		round(other) // it does not vote yet
	}
	if n := voters(t, client); n != 1 || len(other.progress) != 0 {
		t.Errorf("got %d voters, and %d learners that a learner's keeper follows", n, len(other.progress))
	}
	await(t, "the keeper of the leader promotes it", func() bool {
		round(own) // the learner may be behind again
		return voters(t, client) == 2
	})
	join(t, client, d)
	synced := func() *progress {
		round(other)
		for _, p := range other.progress {
			return p
		}
		return &progress{}
	}
	await(t, "the learner could vote", func() bool {
		p := synced()
		if voters(t, client) > 2 {
			t.Fatal("the keeper of the leader has its time first")
		}
		return !p.synced.IsZero()
	})
	for range 3 {
		round(other)
	}
	if n := voters(t, client); n != 2 {
		t.Fatalf("got %d voters: the keeper of the leader has its time first", n)
	}
	await(t, "the other keeper promotes it", func() bool {
		if p := synced(); !p.synced.IsZero() {
			p.synced = p.synced.Add(-membership.StandInAfter)
		}
		return voters(t, client) == 3
	})
}

// After etcd refused a learner, a keeper in the place of another waits again: it would ask every second.
func TestKeeper_behind(t *testing.T) {
	k := &Keeper{progress: map[uint64]*progress{1: {first: time.Now(), synced: time.Now().Add(-time.Hour)}}}
	if k.behind(1); !k.progress[1].synced.IsZero() || k.progress[1].first.IsZero() {
		t.Errorf("got %+v", k.progress[1])
	}
}

// Progress counts under one leader only: another one's keeper has its time first.
func TestKeeper_follow(t *testing.T) {
	const own, b, d = 1, 2, 3
	for _, tt := range []struct {
		name     string
		was, now uint64
		err      error
		kept     bool
	}{
		{"the same leader", b, b, nil, true},
		{"this member leads on", own, own, nil, true},
		{"another leader, of two others", b, d, nil, false},
		{"this member leads now", b, own, nil, false},
		{"no leader", b, 0, nil, false},
		{"still none", 0, 0, nil, false},
		{"no answer", b, b, errors.New("no answer"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &Keeper{leader: tt.was, led: tt.was == own, progress: map[uint64]*progress{4: {}}}
			k.follow(etcd.MemberStatus{ID: own, Leader: tt.now}, tt.err)
			if got := len(k.progress) == 1; got != tt.kept {
				t.Errorf("progress kept: %t, want %t", got, tt.kept)
			}
			if want := tt.err == nil && tt.now == own; k.led != want {
				t.Errorf("it leads: %t, want %t", k.led, want)
			}
		})
	}
}

// A member that another keeper made a voter, or removed, is forgotten.
func TestKeeper_forgetProgress(t *testing.T) {
	k := &Keeper{progress: map[uint64]*progress{1: {}, 2: {}, 3: {}}}
	k.forgetProgress([]etcd.Member{{ID: 1, Learner: true}, {ID: 2}})
	if _, learner := k.progress[1]; !learner || len(k.progress) != 1 {
		t.Errorf("got %v", k.progress)
	}
}
