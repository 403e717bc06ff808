package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// behind is an etcd of three members, of which one is cut off from the others and
// has not seen the newest writes. Clients reach it.
type behind struct {
	*testing.T
	member  *cluster.Member
	current *clientv3.Client // of a member that is not cut off
	client  *etcd.Client     // of the member, and connected
	restore func()
}

// requestTime is shorter than the time for which the library repeats a read to the only server it
// knows, if that has no leader.
const requestTime = 2 * time.Second

func newBehind(t *testing.T) *behind {
	t.Helper()
	members := cluster.NewMembersForTest(t)
	// A follower: then the others have a leader at once, and the member has not
	// noticed yet that it has none.
	at := slices.IndexFunc(members, func(m *cluster.Member) bool {
		resp, err := etcdtest.Dial(t, "http://"+m.Addr()).Status(t.Context(), m.Addr())
		return err == nil && resp.Leader != resp.Header.MemberId
	})
	b := &behind{T: t, member: members[at], current: etcdtest.Dial(t, "http://"+members[(at+1)%len(members)].Addr())}
	b.put("old")
	// The member has this write before it is cut off.
	own := etcdtest.Dial(t, "http://"+b.member.Addr())
	if _, err := own.Get(t.Context(), keys.Status()); err != nil {
		t.Fatal(err)
	}
	b.client = b.newClient()
	b.restore = b.member.Isolate()
	t.Cleanup(b.restore)
	b.put("new")
	if resp, err := own.Get(t.Context(), keys.Status(), clientv3.WithSerializable()); err != nil || string(resp.Kvs[0].Value) != "old" {
		t.Fatalf("got %v, %v: the member is not behind", resp, err)
	}
	return b
}

func (b *behind) newClient() *etcd.Client {
	b.Helper()
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://" + b.member.Addr()}, Prefix: prefix, RequestTimeout: requestTime})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	cluster.Await(b, "a read", func(ctx context.Context) error {
		_, err := client.Get(ctx, keys.Status())
		return err
	})
	return client
}

// put writes the status key, when the others have a leader.
func (b *behind) put(value string) {
	b.Helper()
	cluster.Await(b, "a write of "+value, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := b.current.Put(limited, keys.Status(), value)
		return err
	})
}

// A leader that reaches only a member that is behind gets no snapshot, rather than an
// old one: ResignToNewer, the drain state and the absences rest on it alone. The
// answer says that the member has no leader: a client that knows other members asks one of
// them.
func TestSnapshot_memberBehind(t *testing.T) {
	b := newBehind(t)
	client := b.client
	t.Run("no snapshot", func(t *testing.T) {
		if s, _, err := readSnapshot(t.Context(), client, &fleet.Decoder{}); err == nil {
			t.Errorf("got %+v at revision %d from a member that is behind", s.status, s.fleet.Revision)
		}
	})
	t.Run("the member says that it has no leader", func(t *testing.T) {
		cluster.Await(t, "ErrNoLeader", func(ctx context.Context) error {
			_, err := client.Get(ctx, keys.Status())
			if errors.Is(err, rpctypes.ErrNoLeader) {
				return nil
			}
			return fmt.Errorf("got %w", err)
		})
	})
	t.Run("the newest snapshot, once the member has caught up", func(t *testing.T) {
		b.restore()
		cluster.Await(t, "a snapshot", func(ctx context.Context) error {
			_, _, err := readSnapshot(ctx, client, &fleet.Decoder{})
			return err
		})
		cluster.Await(t, "a read", func(ctx context.Context) error {
			resp, err := client.Get(ctx, keys.Status())
			if err == nil && string(resp.Kvs[0].Value) != "new" {
				t.Errorf("got %v", resp)
			}
			return err
		})
	})
}
