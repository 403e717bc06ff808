package quorum

import (
	"encoding/json"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// storedToken is a token as sidecar cluster token list shows it.
type storedToken struct {
	ID, State string
	UsedBy    []string
}

func tokensOf(t *testing.T, on *Node) []storedToken {
	t.Helper()
	var all []storedToken
	if err := json.Unmarshal([]byte(on.command(t, "cluster", "token", "list", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// wantUses requires that the only token was used by that many nodes.
func wantUses(t *testing.T, on *Node, nodes int) {
	t.Helper()
	if all := tokensOf(t, on); len(all) != 1 || len(all[0].UsedBy) != nodes {
		t.Errorf("got the tokens %+v, want one that %d nodes have used", all, nodes)
	}
}

// tokenEnds are the ways in which the only token becomes invalid for new nodes.
var tokenEnds = map[string]func(*testing.T, *Node){
	"revoked": func(t *testing.T, on *Node) {
		t.Helper()
		on.command(t, "cluster", "token", "revoke", tokensOf(t, on)[0].ID)
	},
	"expired": func(t *testing.T, on *Node) {
		t.Helper()
		expireToken(t, on)
		if all := tokensOf(t, on); all[0].State != "expired" {
			t.Fatalf("got %+v", all)
		}
	},
}

// expireToken makes the only token one that expired a minute ago.
func expireToken(t *testing.T, on *Node) {
	t.Helper()
	c := on.Client()
	key := on.Keys(c, "/lockstep/cluster/tokens/")[0]
	resp, err := c.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var stored lockstepv1.JoinToken
	if err := proto.Unmarshal(resp.Kvs[0].Value, &stored); err != nil {
		t.Fatal(err)
	}
	stored.ExpiresAt = timestamppb.New(time.Now().Add(-time.Minute))
	value, err := proto.Marshal(&stored)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut(key, string(value))}, nil); err != nil {
		t.Fatal(err)
	}
}

// outcome is how a join ends whose token became invalid.
type outcome int

const (
	untried  outcome = iota // a member decides the same as at the step before: internal/cluster/token.TestConsume has both
	finishes                // the token is not needed any more
	refused                 // with the remedy; no member was added
	leftOver                // refused too, and a learner was added before
	either                  // it depends on the progress of its etcd
)

// ending is a step after which a token ends, and how the join ends then.
type ending struct {
	step             string
	revoked, expired outcome
}

// eachEnding runs a test for each way in which a token ends after each of these steps.
func eachEnding(t *testing.T, endings []ending, test func(t *testing.T, step, how string, want outcome)) {
	for _, e := range endings {
		for how, want := range map[string]outcome{"revoked": e.revoked, "expired": e.expired} {
			if want == untried {
				continue
			}
			t.Run(e.step+"/"+how, func(t *testing.T) {
				t.Parallel()
				test(t, e.step, how, want)
			})
		}
	}
}

// The token is revoked, or expires, while a node joins: after each step before its member
// begins, the joining node is killed, the token ends, and the node starts again with the same flags. Either
// its join goes on, since the use was its own already, or it ends with a clear error; then
// another token finishes the join. No member is left over.
func TestJoin_tokenEnds(t *testing.T) {
	t.Parallel()
	binary := cluster.BuildSteps(t)
	eachEnding(t, []ending{
		{"directory", refused, untried},
		{"marker", untried, refused},
		{"key", refused, untried},
		{"enrol", leftOver, finishes},
		{"etcd", leftOver, untried},
		{"member", either, finishes},
	}, func(t *testing.T, step, how string, want outcome) {
		rig := New(t, binary)
		a, b := rig.Node("a"), rig.Node("b")
		a.Start()
		a.AwaitRunning()
		args := joinArgs(t, a, 1)
		b.StartWith([]string{"LOCKSTEP_EXIT_AFTER_STEP=join/" + step}, args...)
		b.awaitKilled(t)
		tokenEnds[how](t, a)
		b.finishJoin(t, a, how, want, args)
	})
}

// The same while a member answers: it is killed after a step of its answer, and the
// joining node with it.
func TestJoin_tokenEndsInTheAnswer(t *testing.T) {
	t.Parallel()
	binary := cluster.BuildSteps(t)
	eachEnding(t, []ending{
		{"check", untried, refused},
		{"token", refused, finishes},
		{"lock", untried, finishes},
		{"add", leftOver, untried},
		{"record", untried, finishes},
		{"sign", leftOver, untried},
		{"answer", leftOver, finishes},
	}, func(t *testing.T, step, how string, want outcome) {
		rig := New(t, binary)
		a, b := rig.Node("a"), rig.Node("b")
		a.StartWith([]string{"LOCKSTEP_EXIT_AFTER_STEP=answer/" + step})
		a.AwaitRunning()
		args := joinArgs(t, a, 1)
		b.Start(args...)
		a.awaitKilled(t)
		KillAll(b)
		a.Start()
		a.AwaitRunning()
		tokenEnds[how](t, a)
		b.finishJoin(t, a, how, want, args)
	})
}

// finishJoin starts the node again with the same flags, and requires the outcome. If its
// token is refused, another one finishes the join.
func (n *Node) finishJoin(t *testing.T, a *Node, how string, want outcome, args []string) {
	t.Helper()
	last := n.attempt(args...)
	if (last == "") != (want == finishes) && want != either {
		t.Errorf("got %q, want the outcome %d", last, want)
	}
	if last != "" {
		wantText(t, last, how, "sidecar cluster token create")
		if got, members := len(membersOf(t, a)), map[outcome]int{refused: 1, leftOver: 2, either: 2}; got != members[want] {
			t.Errorf("got %d members, want %d", got, members[want])
		}
		n.Start(joinArgs(t, a, 1)...)
	}
	awaitVoters(a, n)
	wantMembersOf(t, a, "a", n.ID)
}
