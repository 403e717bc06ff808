package quorum

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// awaitJoining waits until a node that joins shows why it waits.
func (n *Node) awaitJoining(wants ...string) {
	n.rig.t.Helper()
	n.AwaitCluster(fmt.Sprintf("to wait for %q", wants), func(now Cluster) error {
		for _, want := range wants {
			if now.State != "JoiningCluster" || !strings.Contains(now.Error, want) {
				return fmt.Errorf("got %+v", now)
			}
		}
		return nil
	})
}

// joinAt replaces the member that is asked.
func joinAt(args []string, at *Node) []string {
	return []string{fmt.Sprintf("--join=https://%s:8087", at.Address), args[1]}
}

// TestJoin_faults has nodes join one cluster, whose members are dead, hang, or have the node's name.
func TestJoin_faults(t *testing.T) {
	t.Parallel()
	a, b, c := newThree(t)
	d := memberDied(t, a, b, c)
	e := sidecarHangs(t, a, b, d)
	inUse(t, a, b, d, e)
}

// The member that --join names is killed before the join. The joining node says what to
// do: with the URL of another member the same token works. While one of three members is dead, etcd
// adds no other: the node says so, and which one to remove, and joins after that.
func memberDied(t *testing.T, a, b, c *Node) *Node {
	t.Helper()
	args := joinArgs(t, c, 1)
	KillAll(c)
	d := a.rig.Node("d")
	d.Start(args...)
	d.awaitJoining("https://"+c.Address+":8087", "connection refused", "sidecar cluster token create")
	KillAll(d)
	d.Start(joinAt(args, a)...)
	d.awaitJoining(`node "c"`, "sidecar cluster remove c")
	a.command(t, "cluster", "remove", "c")
	awaitVoters(a, b, d)
	wantMembersOf(t, a, "a", "b", "d")
	return d
}

// The member that --join names is killed while it answers, after it added the node. With
// the URL of another member the join goes on where it was.
func TestJoin_memberDiedInTheMiddle(t *testing.T) {
	t.Parallel()
	binary := cluster.BuildSteps(t)
	for _, step := range []string{"token", "add", "sign"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			rig := New(t, binary)
			a, b, c, d := rig.Node("a"), rig.Node("b"), rig.Node("c"), rig.Node("d")
			a.Start()
			a.AwaitRunning()
			args := joinArgs(t, a, 2)
			b.Start(args...)
			c.StartWith([]string{"LOCKSTEP_EXIT_AFTER_STEP=answer/" + step}, args...)
			awaitVoters(a, b, c)
			args = joinArgs(t, c, 1)
			d.Start(args...)
			c.awaitKilled(t)
			KillAll(c)
			d.awaitJoining("https://"+c.Address+":8087", "sidecar cluster token create")
			KillAll(d)
			d.Start(joinAt(args, b)...)
			if step == "token" { // it was not added yet
				d.awaitJoining("sidecar cluster remove c")
				a.command(t, "cluster", "remove", "c")
			}
			d.AwaitRunning()
			if step != "token" {
				a.command(t, "cluster", "remove", "c")
			}
			awaitVoters(a, b, d)
			wantMembersOf(t, a, "a", "b", "d")
		})
	}
}

// A node joins a cluster without a majority: it waits, and joins when there is one again.
func TestJoin_noMajority(t *testing.T) {
	t.Parallel()
	rig := New(t, "")
	a, b, c := rig.Node("a"), rig.Node("b"), rig.Node("c")
	a.Start()
	a.AwaitRunning()
	args := joinArgs(t, a, 2)
	b.Start(args...)
	awaitVoters(a, b)
	KillAll(b)
	c.Start(args...)
	c.awaitJoining("majority")
	b.Start()
	awaitVoters(a, b, c)
	wantMembersOf(t, a, "a", "b", "c")
}

// The sidecar beside etcd's leader hangs, and its member leads on. A node that joins at another member
// votes all the same: the sidecar of another voter asks for it.
func sidecarHangs(t *testing.T, all ...*Node) *Node {
	t.Helper()
	leader := leaderOf(t, all...)
	others := slices.DeleteFunc(slices.Clone(all), func(n *Node) bool { return n == leader })
	args := joinArgs(t, others[0], 1)
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	e := leader.rig.Node("e")
	e.Start(args...)
	e.AwaitRunning()
	if now := leaderOf(t, all...); now != leader {
		t.Errorf("etcd's leader is %s now: %s, whose sidecar hangs, had to lead on", now.ID, leader.ID)
	}
	if err := leader.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	awaitVoters(append(all, e)...)
	return e
}

// A node joins with the node ID, or with the address, of a member that is alive, or that is
// dead: it ends, names the member, and changes nothing. So does the member.
func inUse(t *testing.T, a, b, d, e *Node) {
	t.Helper()
	args := joinArgs(t, a, 1)
	other := a.rig.Node("b")
	wantInUse := func() {
		t.Helper()
		wantText(t, other.Refused(args...), `the node ID "b" is in use by node "b" (member `+b.Marker().MemberID+")", "sidecar cluster remove "+b.Marker().MemberID)
	}
	wantInUse()
	KillAll(b)
	wantInUse()
	same := a.rig.Node("f")
	same.Address = b.Address
	wantText(t, same.Refused(args...), "the address https://"+b.Address+":8089 is in use by node \"b\"")
	wantUnused(t, a, args[1])
	b.Start()
	awaitVoters(a, b, d, e)
	wantMembersOf(t, a, "a", "b", "d", "e")
}

// wantUnused requires that no node used the token of a flag.
func wantUnused(t *testing.T, on *Node, flag string) {
	t.Helper()
	parsed, err := token.Parse(strings.TrimPrefix(flag, "--token="))
	if err != nil {
		t.Fatal(err)
	}
	for _, stored := range tokensOf(t, on) {
		if stored.ID == parsed.ID && len(stored.UsedBy) > 0 {
			t.Errorf("got %+v, want no use", stored)
		}
	}
}
