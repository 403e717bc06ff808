package quorum

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// setMember gives a node the role of a member, or takes it.
func setMember(t *testing.T, on, n *Node, is bool) {
	t.Helper()
	args := []string{"node", "set-roles", n.ID, "--add", protocol.RoleConsensus}
	if !is {
		args = []string{"node", "set-roles", n.ID, "--remove", protocol.RoleConsensus, "--force"}
	}
	on.command(t, args...)
}

// awaitVotersAre waits until the cluster consists of exactly these voters, as n knows them,
// and no learner.
func awaitVotersAre(t *testing.T, n *Node, nodes ...*Node) {
	t.Helper()
	var want []string
	for _, m := range nodes {
		want = append(want, m.ID)
	}
	slices.Sort(want)
	awaitNumber(t, n, len(want))
	cluster.Await(t, fmt.Sprintf("the members to be %v", want), func(context.Context) error {
		var got []string
		for _, m := range membersOf(t, n) {
			got = append(got, m.Node)
			if m.Role != "voter" || !m.Healthy {
				return fmt.Errorf("%+v", m)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			now, err := n.ClusterStatus(t.Context())
			return fmt.Errorf("got %v; %s: %s, %w", got, n.ID, now.Error, err)
		}
		return nil
	})
}

// awaitNumber waits until the member of n knows this many voters, and no learner. That costs much less than the command which
// shows them.
func awaitNumber(t *testing.T, n *Node, voters int) {
	t.Helper()
	c := n.Client()
	cluster.Await(t, fmt.Sprintf("%s to know %d voters", n.ID, voters), func(ctx context.Context) error {
		all, err := c.Members(ctx)
		if err == nil && (len(all) != voters || slices.ContainsFunc(all, func(m etcd.Member) bool { return m.Learner })) {
			err = fmt.Errorf("it knows %+v", all)
		}
		return err
	})
}

// awaitPhase waits until the marker on a node's disk is in that phase.
func (n *Node) awaitPhase(t *testing.T, want datadir.Phase) {
	t.Helper()
	cluster.Await(t, fmt.Sprintf("%s to have the phase %s", n.ID, want), func(ctx context.Context) error {
		if now := n.Marker(); now.Phase != want {
			status, err := n.ClusterStatus(ctx)
			return fmt.Errorf("got %s; %s: %s, %w", now.Phase, status.State, status.Error, err)
		}
		return nil
	})
}

// wantWithoutMember requires that a node is in the cluster and keeps nothing of a member.
func wantWithoutMember(t *testing.T, n *Node) {
	t.Helper()
	n.awaitPhase(t, datadir.WithoutMember)
	n.AwaitRunning()
	if pid := n.MemberPID(); pid != 0 {
		t.Errorf("%s: the process %d of its member runs", n.ID, pid)
	}
	if _, err := os.Stat(datadir.Layout(n.Dir).Etcd()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: the data of its member is there: %v", n.ID, err)
	}
	n.AwaitCluster("to see nothing wrong", func(c Cluster) error {
		if c.Error != "" {
			return errors.New(c.Error)
		}
		return nil
	})
}

// newMembers returns a cluster of n voters.
func newMembers(t *testing.T, binary string, n int) []*Node {
	t.Helper()
	rig := New(t, binary)
	first := rig.Node("a")
	first.Start()
	first.AwaitRunning()
	all := []*Node{first}
	args := joinArgs(t, first, n)
	for i := 1; i < n; i++ {
		node := rig.Node(string(rune('a' + i)))
		node.Start(args...)
		all = append(all, node)
	}
	awaitVoters(all...)
	return all
}

// Members leave and return while the cluster is written to. Their sidecars go on: the
// presence of each stays, and no write that was acknowledged is lost.
func TestRoles_threeFiveThree(t *testing.T) {
	t.Parallel()
	all := newMembers(t, "", 5)
	a, b, c, d, e := all[0], all[1], all[2], all[3], all[4]
	before := map[*Node]lifeOfNode{}
	for _, n := range all {
		before[n] = n.life(t, a)
	}
	writes := startLoad(t, a, b, c)
	for range 2 {
		setMember(t, a, d, false)
		setMember(t, a, e, false)
		awaitVotersAre(t, a, a, b, c)
		wantWithoutMember(t, d)
		wantWithoutMember(t, e)
		writes.awaitMore(t, 20)
		// A command on a node without a member works too.
		setMember(t, d, d, true)
		setMember(t, e, e, true)
		awaitVotersAre(t, e, all...)
		d.awaitPhase(t, datadir.Member)
		e.awaitPhase(t, datadir.Member)
		writes.awaitMore(t, 20)
	}
	// The one that leads leaves too, whichever it is.
	for i, n := range []*Node{a, b} {
		setMember(t, n, n, false)
		awaitVotersAre(t, c, all[i+1:]...)
		wantWithoutMember(t, n)
	}
	writes.end()
	writes.wantAll(t, c, e)
	for _, n := range all {
		n.AwaitRunning()
		if now := n.life(t, c); now != before[n] {
			t.Errorf("%s: got %+v, want that it goes on as %+v", n.ID, now, before[n])
		}
	}
}

// lifeOfNode stays the same while a sidecar goes on and its session survives.
type lifeOfNode struct {
	pid              int
	presence, record int64 // the revisions at which they were created
}

func (n *Node) life(t *testing.T, on *Node) lifeOfNode {
	t.Helper()
	client, keys := on.Client(), keyspace.Under("/lockstep")
	out := lifeOfNode{pid: n.PID()}
	cluster.Await(t, "the presence of "+n.ID, func(ctx context.Context) error {
		presence, err := client.Get(ctx, keys.Presence(protocol.NodeID(n.ID)))
		if err != nil || len(presence.Kvs) == 0 {
			return fmt.Errorf("none: %w", err)
		}
		record, err := client.Get(ctx, keys.Node(protocol.NodeID(n.ID)))
		if err != nil || len(record.Kvs) == 0 {
			return fmt.Errorf("no record: %w", err)
		}
		out.presence, out.record = presence.Kvs[0].CreateRevision, record.Kvs[0].CreateRevision
		return nil
	})
	return out
}

func TestRoles_refused(t *testing.T) {
	t.Parallel()
	all := newMembers(t, "", 3)
	a, b, c := all[0], all[1], all[2]
	wantRefusal := func(n *Node, want ...string) {
		t.Helper()
		out, err := a.tryCommand(t, "node", "set-roles", n.ID, "--remove", protocol.RoleConsensus)
		if err == nil {
			t.Fatalf("%s lost the role: %s", n.ID, out)
		}
		wantText(t, out, want...)
	}
	KillAll(c)
	cluster.Await(t, "c to be missed", func(context.Context) error {
		for _, m := range membersOf(t, a) {
			if m.Node == "c" && !m.Healthy {
				return nil
			}
		}
		return errors.New("it is healthy")
	})
	wantRefusal(b, `without node "b"`, "of which 2 must answer, and 1 would", `node "c"`, "it does not answer")
	c.Start()
	awaitVotersAre(t, a, a, b, c)
	wantRefusal(b, `without node "b" etcd has 2 voters, and accepts no writes while one of them is down`, "or add --force")
	setMember(t, a, b, false)
	awaitVotersAre(t, a, a, c)
	wantRefusal(c, `without node "c" etcd has one voter, with the only copy of the data`, "or add --force")
	setMember(t, a, c, false)
	awaitVotersAre(t, a, a)
	wantRefusal(a, "is the only voter")
	wantWithoutMember(t, b)
	wantWithoutMember(t, c)
	if got := a.command(t, "node", "set-roles", "b", "--remove", protocol.RoleConsensus); !strings.Contains(got, "already has the roles") {
		t.Errorf("a role that b does not have: got %s", got)
	}
}

// Of the last two voters one stays, also when the commands to remove both are typed at the same moment.
func TestRoles_twoAtOnce(t *testing.T) {
	t.Parallel()
	all := newMembers(t, "", 2)
	for round := range 3 {
		outs, errs := make([]string, 2), make([]error, 2)
		var both sync.WaitGroup
		for i, n := range all {
			both.Go(func() {
				args := []string{"node", "set-roles", n.ID, "--remove", protocol.RoleConsensus, "--force"}
				if round == 1 && i == 1 {
					args = []string{"node", "set-roles", n.ID, protocol.RoleController, "--force"}
				}
				outs[i], errs[i] = n.tryCommand(t, args...)
			})
		}
		both.Wait()
		stays := slices.IndexFunc(errs, func(err error) bool { return err != nil })
		if stays < 0 || errs[1-stays] != nil {
			t.Fatalf("got %q, %v, want one of them refused", outs, errs)
		}
		cluster.Await(t, "an answer of the cluster", func(context.Context) error {
			if !strings.Contains(outs[stays], "the cluster has no majority") && !strings.Contains(outs[stays], "etcdserver: no leader") {
				return nil
			}
			// The member that left led etcd, and no other one leads yet. The command is typed again.
			if outs[stays], errs[stays] = all[stays].tryCommand(t, "node", "set-roles", all[stays].ID, "--remove", protocol.RoleConsensus, "--force"); errs[stays] == nil {
				t.Fatalf("both lost the role: %q", outs)
			}
			return errors.New(outs[stays])
		})
		wantText(t, outs[stays], "voter")
		awaitVotersAre(t, all[stays], all[stays])
		wantWithoutMember(t, all[1-stays])
		setMember(t, all[stays], all[1-stays], true)
		awaitVotersAre(t, all[stays], all...)
	}
}

// leavingSteps and addingSteps are the steps of package protocol, and the points between them.
var (
	leavingSteps = []string{
		"change/BeginLeaving", "remove/leaving", "remove/handover", "remove/removed", "change/RemoveMember",
		"change/MoveData", "change/EndLeaving",
	}
	addingSteps = []string{"change/BeginAdding", "add/lock", "add/add", "add/record", "change/AddLearner", "change/StartMember", "change/AwaitVote", "change/EndAdding"}
)

// A node that is powered off at each step of a change is as wanted after its next start. It leaves and
// returns in turns, so that each change finds what the one before has left.
func TestRoles_killedAfterEachStep(t *testing.T) {
	t.Parallel()
	all := newMembers(t, cluster.BuildSteps(t), 2)
	a, b := all[0], all[1]
	for i := range addingSteps {
		if i < len(leavingSteps) {
			changeKilledAfter(t, a, b, leavingSteps[i], false)
		} else { // one step more
			setMember(t, a, b, false)
		}
		awaitVotersAre(t, a, a)
		wantWithoutMember(t, b)
		changeKilledAfter(t, a, b, addingSteps[i], true)
		awaitVotersAre(t, a, a, b)
		b.awaitPhase(t, datadir.Member)
	}
}

// changeKilledAfter changes whether b is a member, powers it off after a step of that, and starts it again.
func changeKilledAfter(t *testing.T, a, b *Node, step string, member bool) {
	t.Helper()
	t.Logf("the power fails after %s", step)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.StartWith([]string{"LOCKSTEP_EXIT_AFTER_STEP=" + step})
	b.AwaitRunning()
	setMember(t, a, b, member)
	b.awaitKilled(t)
	b.Start()
	b.AwaitRunning()
}

// All nodes are powered off while one of two members leaves: its vote is needed until the
// end. Started without the others, a node takes the roles on its disk.
func TestRoles_wholeClusterOff(t *testing.T) {
	t.Parallel()
	binary := cluster.BuildSteps(t)
	all := newMembers(t, binary, 3)
	a, b, c := all[0], all[1], all[2]
	setMember(t, a, c, false)
	awaitVotersAre(t, a, a, b)
	wantWithoutMember(t, c)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.StartWith([]string{"LOCKSTEP_EXIT_AFTER_STEP=change/BeginLeaving"})
	b.AwaitRunning()
	setMember(t, a, b, false)
	b.awaitKilled(t)
	KillAll(a, c)

	c.Start()
	b.Start()
	for n, want := range map[*Node]string{c: "no majority of the members answers", b: "no majority of the members answers"} {
		n.AwaitCluster("to wait for a majority", func(now Cluster) error {
			if now.State != "RestartingMember" || !strings.Contains(now.Error, want) {
				return fmt.Errorf("got %+v", now)
			}
			return nil
		})
		cluster.Await(t, n.ID+" to have the roles of its disk", func(ctx context.Context) error {
			_, body, err := n.Get(ctx, "/status")
			if err == nil && !strings.Contains(strings.Join(strings.Fields(body), ""), `"source":"disk"`) {
				err = errors.New(body)
			}
			return err
		})
	}
	if b.MemberPID() == 0 || c.MemberPID() != 0 {
		t.Errorf("the members run as %d and %d, want only that of b", b.MemberPID(), c.MemberPID())
	}
	a.Start()
	awaitVotersAre(t, a, a)
	for _, n := range []*Node{b, c} {
		wantWithoutMember(t, n)
	}
	setMember(t, a, b, true)
	setMember(t, a, c, true)
	awaitVotersAre(t, a, a, b, c)

	leavesAndReturns(t, a, b, c)
	removedForGood(t, a, b, c)
}
