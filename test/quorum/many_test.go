package quorum

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// joining is how many nodes join at one moment. Each has a connection to each other one, so that ten compute as much
// as a quarter of all other tests of this package.
var joining = flag.Int("quorum.joining", 5, "how many nodes join at once in TestJoin_manyAtOnce; `make soak CLUSTER=embedded` sets ten")

// manyPatience is longer than ten joins one after another take: etcd adds no member in the
// five seconds after one became a voter.
const manyPatience = 5 * time.Minute

// Nodes join at the same moment with one token for all: all of them become voters.
func TestJoin_manyAtOnce(t *testing.T) {
	a, others := joinAtOnce(t, *joining, *joining)
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
	a, others := joinAtOnce(t, 10, 1)
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

// joinAtOnce starts a cluster of one node, and n that join with one token.
func joinAtOnce(t *testing.T, n, uses int) (a *Node, others []*Node) {
	t.Helper()
	rig := New(t, "")
	a = rig.Node("a")
	a.Start()
	a.AwaitRunning()
	args := joinArgs(t, a, uses)
	for i := range n {
		joiner := rig.Node(fmt.Sprintf("n%d", i))
		joiner.Start(args...)
		others = append(others, joiner)
	}
	return a, others
}
