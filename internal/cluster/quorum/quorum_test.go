package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/members"
)

const patience = time.Minute

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// keep runs the keeper of a node until the test ends.
func keep(t *testing.T, n *members.Node, evictAfter time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	k := NewKeeper(KeeperConfig{Client: n.Client(), Local: func() string { return n.ClientURL }, EvictAfter: evictAfter, Log: slog.New(slog.DiscardHandler)})
	var running sync.WaitGroup
	running.Go(func() { _ = k.Run(ctx) }) // its error is that ctx ended
	t.Cleanup(func() { cancel(); running.Wait() })
}

// join adds a node and starts its member.
func join(t *testing.T, client *etcd.Client, n *members.Node) Added {
	t.Helper()
	var added Added
	await(t, n.Name+" is added", func() bool {
		var err error
		added, err = Add(t.Context(), client, Addition{Node: n.Record()})
		if err != nil && !errors.Is(err, ErrWait) {
			t.Fatal(err)
		}
		return err == nil
	})
	n.StartJoined(added.Members)
	return added
}

func voters(t *testing.T, client *etcd.Client) int {
	t.Helper()
	all, err := client.Members(t.Context())
	if err != nil {
		return 0
	}
	n := 0
	for _, m := range all {
		if !m.Learner {
			n++
		}
	}
	return n
}

func records(t *testing.T, client *etcd.Client) stored {
	t.Helper()
	s, err := readStored(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// learners returns the keys of the members that are not voters yet.
func learners(t *testing.T, client *etcd.Client) (keys []string) {
	t.Helper()
	resp, err := client.Get(t.Context(), keyspace.Under(client.Prefix()).ClusterLearners(), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// newThree returns a cluster of three voters, and a client of all.
func newThree(t *testing.T) (*members.Cluster, []*members.Node, *etcd.Client) {
	t.Helper()
	c := members.New(t)
	all := []*members.Node{c.First, c.Node("b"), c.Node("c")}
	for _, n := range all[1:] {
		// Both are learners first: etcd waits for 5 s after the second voter.
		join(t, c.First.Client(), n)
	}
	keep(t, c.First, 0)
	client := c.First.Client(all[0].ClientURL, all[1].ClientURL, all[2].ClientURL)
	await(t, "three voters", func() bool { return voters(t, client) == 3 })
	return c, all, client
}

func TestAdd(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	b := c.Node("b")
	first, err := Add(t.Context(), client, Addition{Node: b.Record()})
	if err != nil {
		t.Fatal(err)
	}
	if first.Cluster.ID != c.ID || len(first.Members) != 2 || first.ID == 0 {
		t.Errorf("got %+v", first)
	}
	// The same node again, as after an answer that was lost.
	again, err := Add(t.Context(), client, Addition{Node: b.Record()})
	if err != nil || again.ID != first.ID || len(again.Members) != 2 {
		t.Errorf("again: got %+v, %v, want member %x", again, err, first.ID)
	}
	s := records(t, client)
	if m := s.members[first.ID]; m.Node != "b" || m.PeerURL != b.PeerURL || m.JoinURL != b.JoinURL {
		t.Errorf("got the record %+v", m)
	}
	if got := learners(t, client); !slices.Equal(got, []string{keyspace.Under(client.Prefix()).ClusterLearner(first.ID)}) {
		t.Errorf("got the learners %v", got)
	}

	otherKey, otherAddress, otherID := b.Record(), c.Node("b").Record(), b.Record()
	otherKey.Key[0] ^= 1
	otherAddress.Key = b.Record().Key
	otherID.Node = "c"
	clientURL := c.Node("d").Record()
	clientURL.ClientURL = b.ClientURL
	for what, rec := range map[string]record.Member{
		"the node ID with another key": otherKey, "the node ID at another address": otherAddress,
		"the address with another node ID": otherID, "the client URL of another node": clientURL,
	} {
		_, err := Add(t.Context(), client, Addition{Node: rec})
		inUse, is := errors.AsType[*InUseError](err)
		if !is || inUse.Member != first.ID || inUse.Node != "b" || !strings.Contains(err.Error(), "sidecar cluster remove "+keyspace.MemberID(first.ID)) {
			t.Errorf("%s: got %v, want InUseError of b", what, err)
		}
		if _, checked := Find(t.Context(), client, rec); checked == nil {
			t.Errorf("%s: Find refuses nothing", what)
		}
	}
}

// TestAdd_interrupted: a sidecar that ended after it added a member, and before it wrote
// the record, leaves a learner without one. The next attempt finds it.
func TestAdd_interrupted(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	b := c.Node("b")
	id, err := client.AddLearner(t.Context(), b.PeerURL)
	if err != nil {
		t.Fatal(err)
	}
	added, err := Add(t.Context(), client, Addition{Node: b.Record()})
	if err != nil || added.ID != id || len(added.Members) != 2 {
		t.Errorf("got %+v, %v, want member %x", added, err, id)
	}
}

// TestAdd_inARow: of many adds at the same moment, as many are done as there may be
// learners, and the others are asked to wait. None hangs.
func TestAdd_inARow(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	const nodes = 6
	errs := make([]error, nodes)
	var all sync.WaitGroup
	for i := range nodes {
		n := c.Node(fmt.Sprintf("n%d", i))
		all.Go(func() { _, errs[i] = Add(t.Context(), client, Addition{Node: n.Record()}) })
	}
	all.Wait()
	added := 0
	for _, err := range errs {
		switch {
		case err == nil:
			added++
		case !errors.Is(err, ErrWait):
			t.Errorf("got %v, want ErrWait", err)
		}
	}
	if added != 2 {
		t.Errorf("%d were added, want 2", added)
	}
}

// TestKeeper: learners become voters, also two at once, and their keys are deleted.
func TestKeeper(t *testing.T) {
	_, all, client := newThree(t)
	await(t, "no learner is recorded", func() bool { return len(learners(t, client)) == 0 })
	if s := records(t, client); len(s.members) != 3 {
		t.Errorf("got the members %+v, want 3", s.members)
	}
	list, err := List(t.Context(), client)
	if err != nil || len(list) != 3 {
		t.Fatalf("got %+v, %v", list, err)
	}
	leaders := 0
	for _, v := range list {
		if !v.Healthy || v.Learner || v.Status.DBSize == 0 || v.Node == "" || v.JoinURL == "" {
			t.Errorf("got %+v", v)
		}
		if v.Leader {
			leaders++
		}
	}
	if leaders != 1 {
		t.Errorf("%d leaders in %+v", leaders, list)
	}
	all[2].Stop()
	await(t, "c is not healthy", func() bool {
		list, err := List(t.Context(), client)
		for _, v := range list {
			if v.Node == "c" {
				return err == nil && !v.Healthy && v.Problem == "it does not answer"
			}
		}
		return false
	})
	all[1].Stop()
	list, err = List(t.Context(), all[0].Client())
	if !errors.Is(err, ErrNoQuorum) || len(list) != 3 {
		t.Errorf("without a majority: got %+v, %v", list, err)
	}
}

// TestKeeper_evicts: a learner that never starts is removed, with a record or without
// one, and then others can join.
func TestKeeper_evicts(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	if _, err := client.AddLearner(t.Context(), c.Node("x").PeerURL); err != nil {
		t.Fatal(err)
	}
	b := c.Node("b")
	if _, err := Add(t.Context(), client, Addition{Node: b.Record()}); err != nil {
		t.Fatal(err)
	}
	keep(t, c.First, 300*time.Millisecond)
	await(t, "both are removed", func() bool {
		all, err := client.Members(t.Context())
		return err == nil && len(all) == 1
	})
	await(t, "no records are left", func() bool {
		s := records(t, client)
		return len(s.members) == 1 && len(learners(t, client)) == 0
	})
	// The same node, with the same key, joins again under another member ID. In the same
	// second it would get the same one, which etcd refuses.
	await(t, "b joins again", func() bool {
		_, err := Add(t.Context(), client, Addition{Node: b.Record()})
		if err != nil && !errors.Is(err, ErrWait) {
			t.Error(err)
		}
		return err == nil
	})
}

// The members that a server knows are listed without a majority, and the answer does not
// count as one of a store that can be used.
func TestListKnown(t *testing.T) {
	_, all, _ := newThree(t)
	client := all[0].Client()
	list := func() (healthy, leaders int) {
		known, err := ListKnown(t.Context(), client)
		if err != nil || len(known) != 3 {
			t.Fatalf("got %+v, %v", known, err)
		}
		for _, v := range known {
			if v.Healthy {
				healthy++
			}
			if v.Leader {
				leaders++
			}
		}
		return healthy, leaders
	}
	await(t, "all are healthy, and one leads", func() bool {
		healthy, leaders := list()
		return healthy == 3 && leaders == 1
	})
	all[1].Stop()
	all[2].Stop()
	await(t, "there is no leader", func() bool {
		healthy, _ := list()
		return healthy == 0
	})
	if client.Contact().Get().Reached() {
		t.Errorf("got %+v", client.Contact().Get())
	}
}

func remove(t *testing.T, n *members.Node, client *etcd.Client, which string) (View, error) {
	t.Helper()
	return Remove(t.Context(), client, Removal{Name: which, Dial: func(url string) (*etcd.Client, error) { return n.Client(url), nil }})
}

// wantAlive requires that no member is removed while a sidecar keeps its presence alive.
func wantAlive(t *testing.T, n *members.Node, client *etcd.Client, node protocol.NodeID) {
	t.Helper()
	err := client.WithSession(t.Context(), 2*time.Second, func(ctx context.Context, s *etcd.Session) error {
		put := clientv3.OpPut(keyspace.Under(client.Prefix()).Presence(node), "", clientv3.WithLease(s.Lease()))
		if _, err := client.Txn(ctx, nil, []clientv3.Op{put}, nil); err != nil {
			return err
		}
		_, err := remove(t, n, client, string(node))
		return err
	})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), fmt.Sprintf("node %q: its sidecar is alive", node)) {
		t.Errorf("a member whose sidecar is alive: got %v", err)
	}
}

func TestRemove(t *testing.T) {
	c, all, client := newThree(t)
	_, err := remove(t, all[0], client, "nowhere")
	if !errors.Is(err, etcd.ErrNoMember) || strings.Contains(err.Error(), "etcdserver") {
		t.Errorf("an unknown name: got %v", err)
	}
	for _, n := range all {
		if id := keyspace.MemberID(n.Member.ID()); !strings.Contains(err.Error(), fmt.Sprintf("node %q (member %s)", n.Name, id)) {
			t.Errorf("got %v, want %s of %s in it", err, id, n.Name)
		}
	}
	// The leader hands over first, and is removed.
	leaderOf := func() View {
		list, err := List(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			if v.Leader {
				return v
			}
		}
		return View{}
	}
	var leader View
	await(t, "a leader", func() bool { leader = leaderOf(); return leader.ID != 0 })
	var stopped <-chan struct{}
	var old *members.Node
	for _, n := range all {
		if n.Name == string(leader.Node) {
			stopped, old = n.Member.Stopped(), n
		}
	}
	wantAlive(t, all[0], client, leader.Node)
	// It was killed: its presence ends with the lease.
	if err := client.PutFor(t.Context(), keyspace.Under(client.Prefix()).Presence(leader.Node), "", 2*time.Second); err != nil {
		t.Fatal(err)
	}
	removed, err := remove(t, all[0], client, string(leader.Node))
	if err != nil || removed.ID != leader.ID {
		t.Fatalf("got %+v, %v, want %+v", removed, err, leader)
	}
	<-stopped // the member ends itself
	client = c.First.Client(slices.DeleteFunc([]string{all[0].ClientURL, all[1].ClientURL, all[2].ClientURL}, func(u string) bool { return u == old.ClientURL })...)
	s := records(t, client)
	if len(s.members) != 2 || len(s.removed) != 1 || s.removed[0].Node != leader.Node || s.removed[0].Removed.IsZero() {
		t.Errorf("got %+v", s)
	}
	// Its key is refused, and another key of the same node is not.
	_, err = Add(t.Context(), client, Addition{Node: old.Record()})
	if !errors.Is(err, ErrRemoved) {
		t.Errorf("the key of a removed member: got %v", err)
	}
	again := c.Node(old.Name)
	if _, err := Find(t.Context(), client, again.Record()); err != nil {
		t.Errorf("another key of the same node: got %v", err)
	}
}

func TestRemove_refuses(t *testing.T) {
	c, all, client := newThree(t)
	all[2].Stop()
	await(t, "c does not answer", func() bool {
		_, err := remove(t, all[0], client, "b")
		if err == nil {
			t.Fatal("b was removed: c alone would be no majority of two")
		}
		return errors.Is(err, ErrRefused) && strings.Contains(err.Error(), "it does not answer")
	})
	if voters(t, client) != 3 {
		t.Errorf("got %d voters, want 3", voters(t, client))
	}
	if _, err := remove(t, all[0], client, "c"); err != nil {
		t.Errorf("remove the dead one: %v", err)
	}
	if _, err := remove(t, all[0], client, "b"); err != nil {
		t.Fatalf("remove one of two: %v", err)
	}
	_, err := remove(t, all[0], c.First.Client(), "a")
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "the only voter") {
		t.Errorf("remove the last voter: got %v", err)
	}
}

// TestLock: a holder that was killed delays the next change for its lease only.
func TestLock(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	key := keyspace.Under(members.Prefix).ClusterLock()
	ctx, cancel := context.WithCancel(t.Context())
	inside := make(chan context.Context)
	var holder sync.WaitGroup
	holder.Go(func() {
		for ctx.Err() == nil { // on a busy machine, its lease may end
			_ = locked(ctx, client, "b", func(held context.Context) error {
				select {
				case inside <- held:
				case <-held.Done():
				}
				<-held.Done()
				return held.Err()
			})
		}
	})
	held := <-inside
	var err error
	// On a busy machine, etcd may take longer to answer at all.
	for limit := 200 * time.Millisecond; limit < time.Minute && !errors.Is(err, ErrBusy); limit *= 2 {
		if held.Err() != nil {
			held = <-inside
		}
		limited, stop := context.WithTimeout(t.Context(), limit)
		err = locked(limited, client, "c", func(context.Context) error {
			if held.Err() == nil {
				t.Error("two hold the lock")
			}
			return nil
		})
		stop()
	}
	if !errors.Is(err, ErrBusy) || !strings.HasSuffix(err.Error(), ": b") {
		t.Errorf("got %v, want ErrBusy by b", err)
	}
	cancel()
	holder.Wait()
	if err := locked(t.Context(), client, "c", func(ctx context.Context) error {
		resp, err := client.Get(ctx, key, clientv3.WithSerializable())
		if err == nil && (len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "c") {
			t.Errorf("got %+v", resp.Kvs)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
