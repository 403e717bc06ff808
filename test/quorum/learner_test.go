package quorum

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// An operator removes a learner while its sidecar is stopped, at each stage of its join.
// Started again with the same flags, it reports that it was removed and how to go on,
// and the cluster stays as it is. With an empty directory and another token it joins.
func TestLearner_removedWhileStopped(t *testing.T) {
	t.Parallel()
	binary := cluster.BuildSteps(t)
	for _, step := range []string{"enrol", "etcd", "member", beginning} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			a, b, args := learnerThatStopped(t, binary, step, "")
			a.command(t, "cluster", "remove", "b")
			awaitMembers(t, a, 1)
			wantText(t, b.attemptAfterRemoval(args...), `node "b" was removed from the cluster`, "empty its data directory and join with a new token")
			wantText(t, b.Refused(args...), `node "b" was removed from the cluster`) // it stays so
			wantMembersOf(t, a, "a")
			if err := os.RemoveAll(b.Dir); err != nil {
				t.Fatal(err)
			}
			b.Start(joinArgs(t, a, 1)...)
			awaitVoters(a, b)
			wantMembersOf(t, a, "a", "b")
		})
	}
}

// A learner is evicted, since its sidecar was stopped for too long. Started again with the
// same flags, it joins as another member. If its token was revoked meanwhile, it reports
// that, and joins with another one.
func TestLearner_evictedWhileStopped(t *testing.T) {
	t.Parallel()
	binary := cluster.BuildSteps(t)
	for _, tt := range []struct {
		step    string
		revoked bool // not at the beginning: it cannot learn that it was evicted, so it waits, and says that its token was revoked
	}{{"enrol", false}, {"enrol", true}, {"etcd", false}, {"member", true}, {beginning, false}} {
		t.Run(fmt.Sprintf("%s/revoked=%t", tt.step, tt.revoked), func(t *testing.T) {
			t.Parallel()
			a, b, args := learnerThatStopped(t, binary, tt.step, "2s")
			awaitMembers(t, a, 1)
			a.restartWith(t) // the next learner gets the usual time
			if tt.revoked {
				tokenEnds["revoked"](t, a)
			}
			last := b.attemptAfterRemoval(args...)
			if tt.revoked {
				wantText(t, last, "was revoked", "sidecar cluster token create")
				b.Start(joinArgs(t, a, 1)...)
			} else if last != "" {
				t.Errorf("got %s", last)
			}
			awaitVoters(a, b)
			wantMembersOf(t, a, "a", "b")
		})
	}
}

// beginning is the moment after etcd began its log, and before it applies anything: it knows no
// other member yet. The step "member" ends before that.
const beginning = "log"

// killAtBeginning starts a sidecar that joins, and kills it with its member as soon as etcd began its
// log, or a moment later.
func (n *Node) killAtBeginning(t *testing.T, args ...string) {
	t.Helper()
	n.Start(args...)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !datadir.Layout(n.Dir).EtcdBegun() {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("%s has begun no log", n.ID)
		}
	}
	KillAll(n)
}

// learnerThatStopped starts a cluster of one node, and kills one that joins after a step
// of its join, or at its beginning. The cluster evicts learners after that time; empty: the usual one.
func learnerThatStopped(t *testing.T, binary, step, evictAfter string) (a, b *Node, args []string) {
	t.Helper()
	rig := New(t, binary)
	a, b = rig.Node("a"), rig.Node("b")
	env := []string{"LOCKSTEP_EVICT_AFTER=" + evictAfter}
	if step == beginning {
		env = append(env, "LOCKSTEP_PROMOTE_AFTER=10s") // a busy machine kills it a moment late
	}
	a.StartWith(env)
	a.AwaitRunning()
	args = joinArgs(t, a, 1)
	if step == beginning {
		b.killAtBeginning(t, args...)
		return a, b, args
	}
	b.StartWith([]string{"LOCKSTEP_EXIT_AFTER_STEP=join/" + step}, args...)
	b.awaitKilled(t)
	return a, b, args
}

// attemptAfterRemoval starts a node whose learner was removed. If its etcd began, the sidecar
// learns there that it was removed, and ends; then it is started again.
func (n *Node) attemptAfterRemoval(args ...string) string {
	last := n.attempt(args...)
	if strings.Contains(last, "removed this node before it caught up; start the sidecar again, with a valid token") {
		last = n.attempt(args...)
	}
	return last
}

func (n *Node) restartWith(t *testing.T, args ...string) {
	t.Helper()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	n.Start(args...)
	n.AwaitRunning()
}

func awaitMembers(t *testing.T, on *Node, want int) {
	t.Helper()
	awaitNumber(t, on, want)
	cluster.Await(t, fmt.Sprintf("%d members", want), func(context.Context) error {
		if got := membersOf(t, on); len(got) != want {
			return fmt.Errorf("got %+v", got)
		}
		return nil
	})
}
