package quorum

import (
	"errors"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
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

// take takes the role of a member from a node.
func take(t *testing.T, client *etcd.Client, node protocol.NodeID) error {
	t.Helper()
	return fleet.SetRoles(t.Context(), client, node, fleet.RoleChange{Leave: MayLose(client, node)})
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

// A node that leaves by itself needs to have lost the role, and may become a member again.
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
	if _, err := CheckFree(t.Context(), alone, all[2].Record()); err != nil {
		t.Errorf("it cannot become a member again: %v", err)
	}
	if s := records(t, alone); len(s.members) != 1 || len(s.removed) != 1 || s.removed[0].Node != "a" {
		t.Errorf("got %+v", s)
	}
}
