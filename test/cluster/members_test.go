package cluster_test

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestMembers: an etcd of three processes serves without one of them, but not without
// two, and keeps its data.
func TestMembers(t *testing.T) {
	c := cluster.NewWithMembersForTest(t, 3, "kube-apiserver") // skips the test where slow tests are not wanted
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Close reports the end of the client's context, which is intended.
		_ = client.Close()
	})
	put := func(ctx context.Context, value string) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := client.Put(ctx, "k", value)
		return err
	}
	cluster.Await(t, "a write", func(ctx context.Context) error { return put(ctx, "all") })
	if err := c.Members[0].Process().Kill(); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, "a write without one member", func(ctx context.Context) error { return put(ctx, "two") })
	if err := c.Members[1].Process().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// A process may run for a moment after SIGSTOP was sent.
	cluster.Await(t, "no write without a quorum", func(ctx context.Context) error {
		if put(ctx, "one") == nil {
			return errors.New("got a write without a quorum")
		}
		return nil
	})
	if err := c.Members[1].Process().Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := c.Members[0].Restart(); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, "the member that was killed", c.Members[0].Await)
	cluster.Await(t, "its data", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		resp, err := client.Get(ctx, "k")
		if err == nil && len(resp.Kvs) != 1 {
			t.Errorf("got %d values, want one", len(resp.Kvs))
		}
		return err
	})
}

// TestMember_Way: single pairs of members are cut off from each other. A member that
// is cut off from all others does not serve. One that is cut off from some does not
// stop the others from serving.
func TestMember_Way(t *testing.T) {
	c := cluster.NewWithMembersForTest(t, 3, "kube-apiserver") // skips the test where slow tests are not wanted
	one, two, three := c.Members[0], c.Members[1], c.Members[2]
	ways := func(a, b *cluster.Member) []*etcdtest.Proxy { return []*etcdtest.Proxy{a.Way(b), b.Way(a)} }
	serves := func(ctx context.Context, m *cluster.Member) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return m.Await(ctx)
	}
	for name, cut := range map[string]etcdtest.Cut{"blackhole": etcdtest.Blackhole, "reset": etcdtest.Reset} {
		for _, p := range slices.Concat(ways(one, two), ways(one, three)) {
			p.Cut(cut)
		}
		cluster.Await(t, name+": no answer from the member that is alone", func(ctx context.Context) error {
			if serves(ctx, one) == nil {
				return errors.New("got an answer from a member that is cut off")
			}
			return nil
		})
		cluster.Await(t, name+": the second", two.Await)
		cluster.Await(t, name+": the third", three.Await)
		for _, p := range ways(one, three) {
			p.Restore()
		}
		// One of the two that are cut off from each other may lead, or follow the third.
		cluster.Await(t, name+": the third, which reaches both", three.Await)
		for _, p := range ways(one, two) {
			p.Restore()
		}
		cluster.Await(t, name+": the first again", one.Await)
	}
}
