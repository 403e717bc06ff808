package upstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc/connectivity"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

const ownSession = "our session in etcd/session.go (docs/adr/0002)"

// Worked around: NewSession has no time limit. It blocks for as long as etcd is
// unreachable. Ours limits the grant (etcd/session.go, grant).
func TestSession_grantBlocks(t *testing.T) {
	r := newRig(t)
	r.proxy.Cut(etcdtest.Blackhole)
	ctx, cancel := context.WithCancel(t.Context())
	granted := make(chan error, 1)
	go func() {
		_, err := concurrency.NewSession(r.cut, concurrency.WithContext(ctx))
		granted <- err
	}()
	if err, came := within(granted); came {
		gone(t, "NewSession has a time limit of its own ("+text(err)+")", "the time limit of "+ownSession)
		cancel()
		return
	}
	cancel()
	if err := receive(r, "NewSession", granted); err == nil {
		t.Error("a session without etcd")
	}
}

// Worked around: the library counts a lease from when the answer was received, not
// from when the request was sent. If answers are late, a holder believes in a lease
// that etcd has ended. Ours counts from before the keep-alive was sent
// (etcd/session.go, extend).
func TestSession_noticesTheEndLate(t *testing.T) {
	r := newRig(t)
	const ttl = 8
	session := r.session(r.cut, concurrency.WithTTL(ttl))
	r.until("the lease is a second old", func() bool { return r.left(session.Lease()) < ttl-1 })
	// The next keep-alive takes effect, and its answer is held.
	r.proxy.Cut(etcdtest.BlackholeResponses)
	r.until("renewed", func() bool { return r.left(session.Lease()) >= ttl-1 })
	r.proxy.Cut(etcdtest.Blackhole)
	r.until("three seconds of the lease are over", func() bool { return r.left(session.Lease()) < ttl-3 })
	r.proxy.Cut(etcdtest.BlackholeRequests) // the answer is delivered, and nothing is asked any more
	r.until("etcd has ended the lease", func() bool { return r.left(session.Lease()) < 0 })
	select {
	case <-session.Done():
		gone(t, "the library's session ends before its lease, although answers are late", "computing the validity again in "+ownSession)
	default:
	}
}

// Worked around: a goroutine of the library keeps a session alive, whatever its
// holder does: one that hangs keeps its place for ever. Ours ends without signs of
// progress (etcd/session.go, Beat).
func TestSession_outlivesItsHoldersWork(t *testing.T) {
	r := newRig(t)
	const ttl = 1
	session := r.session(r.raw, concurrency.WithTTL(ttl))
	select {
	case <-session.Done():
		gone(t, "a session ends where its holder does nothing", "the watchdog of "+ownSession)
	case <-time.After(4 * ttl * time.Second):
		if r.left(session.Lease()) < 0 {
			t.Error("the session continues, and its lease has ended")
		}
	}
}

// Worked around: KeepAliveOnce returns no error while etcd is unreachable: it
// retries without end. Ours makes one attempt on a stream of its own
// (etcd/session.go, keepAliveOnce).
func TestKeepAliveOnce_hidesThatEtcdIsAway(t *testing.T) {
	r := newRig(t)
	lease, err := r.cut.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	r.proxy.Cut(etcdtest.Reset)
	// A request that is under way at the break may fail; those after it do not.
	r.until("the connection is broken", func() bool {
		return r.cut.ActiveConnection().GetState() != connectivity.Ready
	})
	ctx, cancel := context.WithTimeout(t.Context(), grace)
	defer cancel()
	if _, err := r.cut.KeepAliveOnce(ctx, lease.ID); ctx.Err() == nil {
		gone(t, "KeepAliveOnce gives up while etcd is unreachable ("+text(err)+")", "our own stream for keep-alives")
	}
}

// Worked around: when its leader changes, etcd gives all leases their full TTL
// again, so the keys of a dead holder may live for twice their TTL. Our code must
// not conclude from a key that its holder is alive, nor count on the extension
// (etcd/session_test.go, TestSession_etcdRestarts).
func TestLease_extendedWhenTheLeaderChanges(t *testing.T) {
	r := newRig(t)
	const ttl = 6
	lease, err := r.raw.Grant(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	r.put("/dead", "", clientv3.WithLease(lease.ID))
	r.until("more than half of the lease is over", func() bool { return r.left(lease.ID) < ttl/2 })
	r.server.Stop() // one member that starts again is a new leader
	if err := r.server.Restart(); err != nil {
		t.Fatal(err)
	}
	var left int64
	r.until("etcd answers", func() bool {
		resp, err := r.raw.TimeToLive(t.Context(), lease.ID)
		if err == nil {
			left = resp.TTL
		}
		return err == nil
	})
	if left < ttl/2 {
		gone(t, "a lease is not extended when etcd's leader changes", "the limit of twice the TTL in docs/operations.md and this test")
	}
}

// Relied on: etcd keeps a lease for at least its TTL, counted from when it
// received the grant or the keep-alive. When the lease ends, etcd deletes its keys. A
// put on an ended lease fails with its whole transaction. So a sidecar that lost its
// session never writes a presence, a record or a leader's key (fleet/presence.go,
// election/campaign.go).
func TestLease_goneFailsTheTransaction(t *testing.T) {
	r := newRig(t)
	lease, err := r.raw.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	r.put("/on-the-lease", "", clientv3.WithLease(lease.ID))
	if _, err := r.raw.Revoke(t.Context(), lease.ID); err != nil {
		t.Fatal(err)
	}
	if n := r.count("/on-the-lease"); n != 0 {
		broken(t, "a revoked lease leaves its keys", "presences and candidates' keys that end with their session")
	}
	_, err = r.raw.Txn(t.Context()).Then(
		clientv3.OpPut("/a", ""),
		clientv3.OpPut("/b", "", clientv3.WithLease(lease.ID)),
		clientv3.OpPut("/c", ""),
	).Commit()
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) || r.count("/a") != 0 || r.count("/c") != 0 {
		broken(t, "a transaction with a put on an ended lease is not refused as a whole ("+text(err)+")",
			"that a sidecar without session writes nothing (fleet/presence.go, put)")
	}
}

// Relied on: etcd never ends a lease before its TTL is over, even in its last second,
// long after it was renewed.
func TestLease_livesForItsTTL(t *testing.T) {
	r := newRig(t)
	before := time.Now()
	lease, err := r.raw.Grant(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	r.put("/on-the-lease", "", clientv3.WithLease(lease.ID))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for resp := range r.raw.Watch(ctx, "/on-the-lease") {
		for _, ev := range resp.Events {
			if ev.Type != clientv3.EventTypeDelete {
				continue
			}
			if lived := time.Since(before); lived < time.Duration(lease.TTL)*time.Second {
				broken(t, "a lease of 2 s ended after "+lived.String(), "the validity that sessions compute (etcd/session.go)")
			}
			return
		}
	}
	t.Fatal("the lease did not end")
}
