package members_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var keys = keyspace.Under("/p")

func newClient(t *testing.T, endpoints ...string) *etcd.Client {
	t.Helper()
	c, err := etcd.NewClient(etcd.Config{Endpoints: endpoints, Prefix: "/p", AttemptTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// use makes a client use each list, its own member first.
func use(t *testing.T, c *etcd.Client, own string) func([]members.Member) {
	return func(list []members.Member) {
		endpoints := slices.DeleteFunc(members.Endpoints("x", list), func(url string) bool { return url == own })
		if own != "" {
			endpoints = append([]string{own}, endpoints...)
		}
		if len(endpoints) > 0 {
			if err := c.SetEndpoints(endpoints); err != nil {
				t.Error(err)
			}
		}
	}
}

// follow runs a directory until the test ends.
func follow(t *testing.T, c *etcd.Client, file, own string) *members.Directory {
	t.Helper()
	d := members.New(members.Config{Client: c, File: file, Publish: use(t, c, own), PublishRemoved: func([]protocol.MemberRemoval) {}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It returns when ctx ends.
		_ = d.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return d
}

func await(t *testing.T, d *members.Directory, what string, ok func([]members.Member) bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		list, changed := d.List().Load()
		if ok(list) {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("not in time: %s; %+v", what, list)
		}
	}
}

func put(t *testing.T, raw *clientv3.Client, id uint64, node, url string) {
	t.Helper()
	m := record.Member{Node: protocol.NodeID(node), Address: "127.0.0.1", ClientURL: url}
	if _, err := raw.Put(t.Context(), keys.ClusterMember(id), string(record.EncodeMember(m))); err != nil {
		t.Fatal(err)
	}
}

// The client uses the members that etcd lists, this node's own first, and after a restart
// the ones on the disk.
func TestDirectory(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	own, other := server.Endpoints()[0], "http://127.0.0.1:1"
	file := filepath.Join(t.TempDir(), "members.json")
	c := newClient(t, own)
	d := follow(t, c, file, own)
	put(t, raw, 1, "b", other)
	put(t, raw, 2, "a", own)
	if _, err := raw.Put(t.Context(), keys.ClusterMembers()+"3", "broken"); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Put(t.Context(), keys.ClusterLearner(1), ""); err != nil {
		t.Fatal(err)
	}
	await(t, d, "both members, one a learner", func(list []members.Member) bool {
		return len(list) == 2 && list[0].Learner && list[0].Node == "b" && list[1].ID == "2" && !list[1].Learner
	})
	if got, want := c.Endpoints(), []string{own, other}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if list, err := members.Read(file); err != nil || !slices.Equal(list, d.List().Get()) {
		t.Errorf("on the disk: %v, %v", list, err)
	}

	// A sidecar without a member, whose flags name a server that ended.
	late := newClient(t, "http://127.0.0.1:2")
	if again := follow(t, late, file, ""); len(again.List().Get()) != 2 {
		t.Errorf("got %+v", again.List().Get())
	}
	if err := late.Check(t.Context()); err != nil {
		t.Error(err)
	}

	leaving := record.Member{Node: "a", Address: "127.0.0.1", ClientURL: own, Leaving: true}
	if _, err := raw.Put(t.Context(), keys.ClusterMember(2), string(record.EncodeMember(leaving))); err != nil {
		t.Fatal(err)
	}
	await(t, d, "a member whose removal was decided", func(list []members.Member) bool { return list[1].Leaving && !list[0].Leaving })

	// A lost store lists no members: the known ones stay.
	if _, err := raw.Delete(t.Context(), keys.ClusterMembers(), clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	put(t, raw, 4, "c", own)
	await(t, d, "the next list", func(list []members.Member) bool { return len(list) == 1 && list[0].Node == "c" })
	if got, want := c.Endpoints(), []string{own}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestEndpoints(t *testing.T) {
	list := []members.Member{{ID: "1", ClientURL: "b", Learner: true}, {ID: "2", ClientURL: "a"}, {ID: "3"}, {ID: "4", ClientURL: "c"}}
	if got := members.Endpoints("n", list); len(got) != 3 || got[2] != "b" {
		t.Errorf("got %v, want a and c, and b last", got)
	}
	for n := range 20 { // in any order of the node
		if got := members.Endpoints("n"+strconv.Itoa(n), list); len(got) != 3 || got[2] != "b" {
			t.Errorf("n%d: got %v, want b last", n, got)
		}
	}
	if got := members.Endpoints("n", nil); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// Nodes without a member spread over the voters. When one leaves, only its nodes use
// another one.
func TestEndpoints_spread(t *testing.T) {
	const nodes = 300
	var list []members.Member
	for i := range 5 {
		list = append(list, members.Member{ID: strconv.Itoa(i), ClientURL: "url-" + strconv.Itoa(i)})
	}
	first, uses := map[string]string{}, map[string]int{}
	for i := range nodes {
		node := "node-" + strconv.Itoa(i)
		first[node] = members.Endpoints(node, list)[0]
		uses[first[node]]++
	}
	for _, m := range list {
		if n := uses[m.ClientURL]; n < nodes/10 || n > nodes/3 {
			t.Errorf("%d of %d nodes use %s", n, nodes, m.ClientURL)
		}
	}
	for node, was := range first {
		now := members.Endpoints(node, list[1:])[0]
		if was != list[0].ClientURL && now != was {
			t.Errorf("%s used %s, which stays, and uses %s", node, was, now)
		}
	}
}

// A file that is damaged, or of a later release, is no list, and no reason to end.
func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "members.json")
	for _, text := range []string{"", "{", `{"version":2}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := members.Read(file); err == nil {
			t.Errorf("%q is read", text)
		}
		c := newClient(t, "http://127.0.0.1:2")
		d := members.New(members.Config{Client: c, File: file, Publish: use(t, c, "http://127.0.0.1:2"), PublishRemoved: func([]protocol.MemberRemoval) {}, Log: slog.New(slog.DiscardHandler)})
		if list := d.List().Get(); len(list) != 0 || len(c.Endpoints()) != 1 {
			t.Errorf("got %v, %v", list, c.Endpoints())
		}
	}
}

// Other nodes show who removed a member. Corrupt records are left out.
func TestDirectory_removed(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	c := newClient(t, server.Endpoints()[0])
	removed := event.New[[]protocol.MemberRemoval](nil)
	d := members.New(members.Config{
		Client: c, File: filepath.Join(t.TempDir(), "members.json"), Publish: func([]members.Member) {}, PublishRemoved: removed.Set,
		Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Run(ctx) // it returns when ctx ends
	}()
	t.Cleanup(func() { cancel(); <-done })
	m := record.Member{Node: "b", Removed: time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC), By: "root@cp-1"}
	written, err := raw.Put(t.Context(), keys.RemovedMember(2), string(record.EncodeMember(m)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Put(t.Context(), keys.RemovedMember(3), "broken"); err != nil {
		t.Fatal(err)
	}
	want := []protocol.MemberRemoval{{Node: "b", At: m.Removed, By: "root@cp-1", Revision: written.Header.Revision}}
	limited, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	if err := event.Until(limited, removed, func(got []protocol.MemberRemoval) bool { return slices.Equal(got, want) }); err != nil {
		t.Errorf("got %+v", removed.Get())
	}
}
