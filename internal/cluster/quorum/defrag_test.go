package quorum

import (
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/test/members"
)

// A member that does not answer is named, and nothing is done without Force. With it, the others are
// defragmented: deleted keys need no space any more.
func TestDefragment(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	value := strings.Repeat("x", 1<<20)
	for range 5 {
		await(t, "etcd writes a value", func() bool { // a busy disk needs longer than an attempt may take
			_, err := client.Write(t.Context(), nil, clientv3.OpPut("/other", value))
			return err == nil
		})
	}
	await(t, "etcd commits its database", func() bool {
		all, err := List(t.Context(), client)
		return err == nil && all[0].Status.DBSize > 5<<20
	})
	if _, err := client.AddLearner(t.Context(), c.Node("b").PeerURL); err != nil {
		t.Fatal(err)
	}
	if _, err := Defragment(t.Context(), client, Defragmentation{}); !errors.Is(err, ErrNotDefragmented) ||
		!strings.Contains(err.Error(), "it has not started yet") || !strings.Contains(err.Error(), "--force") {
		t.Errorf("got %v", err)
	}
	size := func() int64 {
		all, err := List(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Status.DBSize + all[1].Status.DBSize
	}
	before, free := size(), int64(diskReserve)
	space := func(View) (int64, bool) { return free, true }
	if _, err := Defragment(t.Context(), client, Defragmentation{Force: true, Free: space}); !errors.Is(err, ErrNotDefragmented) ||
		!strings.Contains(err.Error(), "64 MiB free") || size() < before {
		t.Errorf("a disk without room for a copy: got %v, %d bytes before, %d now", err, before, size())
	}
	free += 16 << 20 // for the data; etcd counts old revisions until it commits their deletion
	got, err := Defragment(t.Context(), client, Defragmentation{Force: true, Free: space})
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v, %v", got, err)
	}
	leader, learner := got[1], got[0]
	if !learner.LeftOut || leader.LeftOut || !leader.Leader || leader.Status.DBSize < 5<<20 || leader.After > 2<<20 {
		t.Errorf("got %+v", got)
	}
}

// Followers come first, in any order.
func TestLeaderLast(t *testing.T) {
	leader, follower := View{Leader: true}, View{}
	if leaderLast(leader, follower) <= 0 || leaderLast(follower, leader) >= 0 || leaderLast(follower, follower) != 0 {
		t.Error("the leader is not the last")
	}
}

// A database whose data needs the quota is not reported as repaired.
func TestStillFull(t *testing.T) {
	if err := stillFull([]Defragmented{{View: View{Status: etcd.MemberStatus{Quota: 10}}, After: 9}, {After: 9}}); err != nil {
		t.Errorf("got %v", err)
	}
	err := stillFull([]Defragmented{{View: View{Status: etcd.MemberStatus{Quota: 10}}, After: 10}})
	if !errors.Is(err, ErrNotDefragmented) || !strings.Contains(err.Error(), "--etcd-quota-bytes") {
		t.Errorf("got %v", err)
	}
	if etcd.IsNoSpace(err) {
		t.Error("it is not an answer of etcd")
	}
}
