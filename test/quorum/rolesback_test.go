package quorum

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// decideToLeave powers c off when its record shows that it is leaving, before etcd is asked. Then c gets the role back.
func decideToLeave(t *testing.T, a, c *Node) {
	t.Helper()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	c.StartWith([]string{"LOCKSTEP_EXIT_AFTER_STEP=remove/leaving"})
	c.AwaitRunning()
	setMember(t, a, c, false)
	c.awaitKilled(t)
	setMember(t, a, c, true)
}

// leavesAndReturns: nothing takes back that the removal of c was decided. c leaves, and becomes a member again.
func leavesAndReturns(t *testing.T, a, b, c *Node) {
	t.Helper()
	decideToLeave(t, a, c)
	was := c.Marker().MemberID
	c.Start()
	awaitVotersAre(t, a, a, b, c)
	c.awaitPhase(t, datadir.Member)
	if now := c.Marker().MemberID; now == was {
		t.Errorf("c is still the member %s, whose removal was decided", now)
	}
}

// removedForGood: an operator removes c while it leaves, and while its member hangs. The sidecar ends each time, and says
// how the node can join again.
func removedForGood(t *testing.T, a, b, c *Node) {
	t.Helper()
	const ends = "the cluster has removed this etcd member; to join again, delete "
	decideToLeave(t, a, c)
	a.command(t, "cluster", "remove", "c")
	wantText(t, c.Refused(), ends)
	wantText(t, c.Refused(), "is that of a member that was removed from its cluster")

	if err := os.RemoveAll(c.Dir); err != nil {
		t.Fatal(err)
	}
	c.Start(joinArgs(t, a, 1)...)
	awaitVotersAre(t, a, a, b, c)
	c.awaitPhase(t, datadir.Member)
	c.signalMember(syscall.SIGSTOP)
	cluster.Await(t, "c to be removed", func(context.Context) error {
		out, err := a.tryCommand(t, "cluster", "remove", "c", "--force")
		if err != nil && !strings.Contains(out, "no member has the ID") {
			return errors.New(out) // until etcd misses the member
		}
		return nil
	})
	cluster.Await(t, "the sidecar of c to end", func(context.Context) error {
		select {
		case <-c.Done():
			return nil
		default:
			return errors.New("it runs; " + c.Ending())
		}
	})
	wantText(t, c.LastLine(), ends)
	awaitVotersAre(t, a, a, b)
}
