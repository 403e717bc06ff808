package quorum

import (
	"log/slog"
	"testing"

	"github.com/lockstep-dev/lockstep/test/members"
)

// Only the keeper on the node of etcd's leader works: others know less of a learner, and two of
// them would act at the same time.
func TestKeeper_onlyThatOfTheLeader(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	b := c.Node("b")
	join(t, client, b)
	keeper := func(of *members.Node) *Keeper {
		return NewKeeper(KeeperConfig{Client: client, Local: func() string { return of.ClientURL }, Log: slog.New(slog.DiscardHandler)})
	}
	await(t, "the learner has what the leader has", func() bool {
		leader, err := client.MemberStatus(t.Context(), c.First.ClientURL)
		if err != nil {
			return false
		}
		learner, err := client.MemberStatus(t.Context(), b.ClientURL)
		return err == nil && learner.Leader == leader.ID && learner.Applied >= leader.Index
	})
	other := keeper(b)
	for range 3 {
		if _, err := other.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := voters(t, client); n != 1 || len(other.progress) != 0 {
		t.Errorf("got %d voters, and %d learners that it follows", n, len(other.progress))
	}
	own := keeper(c.First)
	await(t, "the keeper of the leader promotes it", func() bool {
		_, _ = own.round(t.Context()) // the learner may be behind again
		return voters(t, client) == 2
	})
}
