package quorum

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// manyPatience is longer than ten joins one after another take: etcd adds no member in the
// five seconds after one became a voter.
const manyPatience = 5 * time.Minute

// Ten nodes join at the same moment with one token for ten: all of them become voters.
func TestJoin_tenAtOnce(t *testing.T) {
	a, others := tenAtOnce(t, 10)
	ctx, cancel := context.WithTimeout(t.Context(), manyPatience)
	defer cancel()
	if err := cluster.Poll(ctx, func(ctx context.Context) error {
		now, err := a.ClusterStatus(ctx)
		voters := 0
		for _, m := range now.Members {
			if !m.Learner && m.Healthy {
				voters++
			}
		}
		if err == nil && voters != 1+len(others) {
			err = fmt.Errorf("%d voters", voters)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	names := []string{"a"}
	for _, n := range others {
		n.AwaitRunning()
		names = append(names, n.ID)
	}
	wantMembersOf(t, a, names...)
	wantUses(t, a, len(others))
}

// Ten nodes join at the same moment with a token for one: exactly one of them becomes a
// member, and the others end and say what to do.
func TestJoin_oneOfTen(t *testing.T) {
	t.Parallel()
	a, others := tenAtOnce(t, 1)
	var joined *Node
	for _, n := range others {
		n.awaitEither()
		select {
		case <-n.Done():
			last := n.LastLine()
			if code := n.ExitCode(); code != 1 || !strings.Contains(last, "was used by other nodes") || !strings.Contains(last, "sidecar cluster token create") {
				t.Errorf("%s ended with exit code %d and %s", n.ID, code, last)
			}
		default:
			if joined != nil {
				t.Fatalf("%s and %s joined", joined.ID, n.ID)
			}
			joined = n
		}
	}
	if joined == nil {
		t.Fatal("no node joined")
	}
	awaitVoters(a, joined)
	wantMembersOf(t, a, "a", joined.ID)
	wantUses(t, a, 1)
}

// tenAtOnce starts a cluster of one node, and ten that join with one token.
func tenAtOnce(t *testing.T, uses int) (a *Node, others []*Node) {
	t.Helper()
	rig := New(t, "")
	a = rig.Node("a")
	a.Start()
	a.AwaitRunning()
	args := joinArgs(t, a, uses)
	for i := range 10 {
		n := rig.Node(fmt.Sprintf("n%d", i))
		n.Start(args...)
		others = append(others, n)
	}
	return a, others
}
