package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/members"
)

var memberRole = protocol.Roles{Consensus: true}

// give writes a record with the role of a member for each node.
func give(t *testing.T, client *etcd.Client, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		node := protocol.Node{ID: protocol.NodeID(n), Roles: memberRole}
		put := clientv3.OpPut(keyspace.Under(members.Prefix).Node(node.ID), string(fleet.Encode(node)))
		if _, err := client.Txn(t.Context(), nil, []clientv3.Op{put}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// take takes the role of a member from a node, whatever it costs.
func take(t *testing.T, client *etcd.Client, node protocol.NodeID) error {
	t.Helper()
	return fleet.SetRoles(t.Context(), client, node, fleet.RoleChange{Leave: MayLose(client, Loss{Node: node, Force: true})})
}

// Without --force, no role is taken if no voter may fail after that.
func TestMayLose_costs(t *testing.T) {
	_, all, client := newThree(t)
	give(t, client, "a", "b", "c")
	for _, tt := range []struct{ node, want string }{
		{"c", `without node "c" etcd has 2 voters, and accepts no writes while one of them is down`},
		{"b", `without node "b" etcd has one voter, with the only copy of the data`},
	} {
		err := fleet.SetRoles(t.Context(), client, protocol.NodeID(tt.node), fleet.RoleChange{Leave: MayLose(client, Loss{Node: protocol.NodeID(tt.node)})})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "add --force") {
			t.Errorf("%s: got %v, want %q", tt.node, err, tt.want)
		}
		if err := take(t, client, protocol.NodeID(tt.node)); err != nil {
			t.Errorf("%s, with force: %v", tt.node, err)
		}
	}
	// One that is down is no loss.
	give(t, client, "a", "b", "c")
	all[2].Stop()
	others := all[0].Client(all[0].ClientURL, all[1].ClientURL)
	await(t, "c may lose the role", func() bool {
		err := fleet.SetRoles(t.Context(), others, "c", fleet.RoleChange{Leave: MayLose(others, Loss{Node: "c"})})
		if err != nil && !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// Of two nodes that lose the role at the same moment, one keeps it: each command would be
// allowed alone.
func TestMayLose_twoAtOnce(t *testing.T) {
	c := members.New(t)
	client, b := c.First.Client(), c.Node("b")
	join(t, client, b)
	keep(t, c.First, 0)
	await(t, "two voters", func() bool { return voters(t, client) == 2 })
	for range 5 {
		give(t, client, c.First.Name, "b")
		errs := make([]error, 2)
		var both sync.WaitGroup
		for i, node := range []string{c.First.Name, "b"} {
			both.Go(func() { errs[i] = take(t, client, protocol.NodeID(node)) })
		}
		both.Wait()
		refused := 0
		for _, err := range errs {
			if errors.Is(err, ErrRefused) && strings.Contains(err.Error(), "is the last voter that stays") {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused != 1 {
			t.Errorf("got %v, want one of them refused", errs)
		}
	}
}

// A node that joins gets the role, also if its record from before does not have it: it would leave at once. One
// that was given the role, and lost it meanwhile, does not get it back.
func TestAdd_givesTheRole(t *testing.T) {
	for _, tt := range []struct{ joins, added bool }{{true, false}, {true, true}, {false, false}} {
		joins := tt.joins
		c := members.New(t)
		client, b := c.First.Client(), c.Node("b")
		if tt.added { // by an attempt that ended before it wrote a record
			if _, err := client.AddLearner(t.Context(), b.PeerURL); err != nil {
				t.Fatal(err)
			}
		}
		give(t, client, "b")
		if err := fleet.SetRoles(t.Context(), client, "b", fleet.RoleChange{}); err != nil {
			t.Fatal(err)
		}
		if _, err := Add(t.Context(), client, Addition{Node: b.Record(), Joins: joins}); err != nil {
			t.Fatal(err)
		}
		keys := keyspace.Under(members.Prefix)
		resp, err := client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpGet(keys.Node("b"))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		own := fleet.Decode(keys, etcd.NewListing(resp, 0), etcd.Listing{}).Records[0]
		if own.Problem != "" || own.Node.Roles.Consensus != joins {
			t.Errorf("%+v: got %+v", tt, own)
		}
	}
}

// A record that changes meanwhile is no fault: the joining node is asked to wait.
func TestWaitIfChanged(t *testing.T) {
	other := errors.New("other")
	for err, want := range map[error]error{nil: nil, other: other, fmt.Errorf("give: %w", etcd.ErrChanged): ErrWait} {
		if got := waitIfChanged(err, "b"); !errors.Is(got, want) {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
}

// A node leaves by itself only after it lost the role, and may become a member again.
func TestRemove_leaves(t *testing.T) {
	c, all, client := newThree(t)
	give(t, client, "a", "b", "c")
	dial := func(url string) (*etcd.Client, error) { return c.First.Client(url), nil }
	leave := Removal{Name: "c", Leaves: true, Dial: dial}
	if _, err := Remove(t.Context(), client, leave); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "has the role consensus_member again") {
		t.Errorf("a node with the role: got %v", err)
	}
	if err := take(t, client, "c"); err != nil {
		t.Fatal(err)
	}
	// It may leave at any time, and carries no other removal: without b, a would be alone.
	all[0].Stop()
	others := c.First.Client(all[1].ClientURL, all[2].ClientURL)
	await(t, "a does not answer", func() bool {
		err := take(t, others, "b")
		return errors.Is(err, ErrRefused) && strings.Contains(err.Error(), "it does not answer")
	})
	if _, err := Remove(t.Context(), others, leave); !errors.Is(err, ErrRefused) {
		t.Errorf("without a, c is needed: got %v", err)
	}
	if _, err := remove(t, all[1], others, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := Remove(t.Context(), others, leave); err != nil {
		t.Fatal(err)
	}
	alone := c.First.Client(all[1].ClientURL)
	if _, err := Find(t.Context(), alone, all[2].Record()); err != nil {
		t.Errorf("it cannot become a member again: %v", err)
	}
	if s := records(t, alone); len(s.members) != 1 || len(s.removed) != 1 || s.removed[0].Node != "a" {
		t.Errorf("got %+v", s)
	}
}

// The last voter holds the only copy of the data. A user who removes it learns how to end the
// cluster; where a node leaves for its roles, the refusal shows how it stays.
func TestMayRemove_lastVoter(t *testing.T) {
	last := View{Member: record.Member{ID: 1, Node: "d"}, Healthy: true}
	for _, others := range [][]View{nil, {{Member: record.Member{ID: 2, Node: "e"}, Learner: true}}, {{Member: record.Member{ID: 3, Node: "f", Leaving: true}, Healthy: true}}} {
		for leaves, want := range map[bool]string{true: "sidecar node set-roles d --add consensus_member", false: "delete its data directory"} {
			err := mayRemove(append(others, last), last, Removal{Leaves: leaves}.remedy(last))
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) || leaves == strings.Contains(err.Error(), "delete") {
				t.Errorf("leaves %t: got %v, want %q in it", leaves, err, want)
			}
		}
	}
}

// A member that becomes the leader after the members were listed hands over too.
func TestRemove_leadsSince(t *testing.T) {
	_, all, client := newThree(t)
	b := all[1]
	var messages []string
	_, err := Remove(t.Context(), client, Removal{
		Name: "b", Dial: func(url string) (*etcd.Client, error) { return b.Client(url), nil },
		Progress: func(text string) { messages = append(messages, text) },
		After: func(step string) {
			if step == "leaving" {
				lead(t, b, all)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(messages, func(text string) bool { return strings.Contains(text, "it hands over to") }) {
		t.Errorf("got %q, want that b hands over", messages)
	}
}

// lead makes a member the leader.
func lead(t *testing.T, to *members.Node, all []*members.Node) {
	t.Helper()
	await(t, to.Name+" leads", func() bool {
		for _, n := range all {
			status, err := n.Client().MemberStatus(t.Context(), n.ClientURL)
			switch {
			case err != nil:
			case status.Leader == to.Member.ID():
				return true
			case status.Leader == status.ID:
				_ = n.Client().MoveLeader(t.Context(), to.Member.ID()) // it is asked again
			}
		}
		return false
	})
}

// The record of a learner that is evicted shows that it leaves before etcd is asked to
// remove it: etcd may do that long after the request.
func TestKeeper_evictsLeaving(t *testing.T) {
	c := members.New(t)
	client, keys := c.First.Client(), keyspace.Under(members.Prefix)
	b := c.Node("b")
	added, err := Add(t.Context(), client, Addition{Node: b.Record()})
	if err != nil {
		t.Fatal(err)
	}
	key, leaving := keys.ClusterMember(added.ID), false
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	listed := make(chan struct{})
	first := sync.OnceFunc(func() { close(listed) })
	following.Go(func() {
		_ = client.Follow(ctx, key, func(l etcd.Listing) { // it ends with ctx
			first()
			for _, kv := range l.KVs {
				if m, err := record.DecodeMember(kv.Key, kv.Value); err == nil && m.Leaving {
					leaving = true
				}
			}
			if len(l.KVs) == 0 {
				cancel()
			}
		})
	})
	<-listed
	keep(t, c.First, 300*time.Millisecond)
	await(t, "the record is deleted", func() bool { return ctx.Err() != nil })
	following.Wait()
	if !leaving {
		t.Error("the record never had that the member leaves")
	}
}
