package upstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
)

const ownElection = "our queue in election/campaign.go (docs/adr/0002)"

// Worked around: a candidate whose session ended keeps waiting. When its
// predecessor leaves, Campaign returns nil, although its key and lease no longer
// exist (etcd #19597). Ours leaves the queue with its session
// (election/campaign.go, awaitTurn), and counts as leader only once a transaction
// has found its key (election/inputs.go, gather).
func TestCampaign_zombieBecomesPhantomLeader(t *testing.T) {
	r := newRig(t)
	first := r.elect(r.session(r.raw), "first")
	session := r.session(r.raw, concurrency.WithTTL(2))
	candidate := concurrency.NewElection(session, electionPrefix)
	campaign := r.campaign(t.Context(), candidate, "second")

	if _, err := r.raw.Revoke(t.Context(), session.Lease()); err != nil {
		t.Fatal(err)
	}
	receive(r, "the session's end", session.Done())
	if err, came := within(campaign); came {
		gone(t, "Campaign ends when its session does ("+text(err)+")", "awaiting the session beside the queue, and "+ownElection+",")
		return
	}
	if n := r.count(electionPrefix); n != 1 {
		t.Fatalf("%d keys in the queue, want that of the first alone", n)
	}
	if err := first.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := receive(r, "Campaign", campaign); err != nil {
		gone(t, "Campaign notices that its key was deleted ("+text(err)+")", "the transaction that confirms leadership (no: it is the snapshot too), but "+ownElection)
		return
	}
	if n := r.count(electionPrefix); n != 0 {
		t.Errorf("%d keys in the queue: the phantom has one", n)
	}
	// Even so the library can be asked again: what confirms is a transaction.
	if err := candidate.Proclaim(t.Context(), "second"); !errors.Is(err, concurrency.ErrElectionNotLeader) {
		t.Errorf("the phantom proclaimed: %v", err)
	}
}

func text(err error) string {
	if err == nil {
		return "without an error"
	}
	return err.Error()
}

// Worked around: if the wait fails, for example because the store was compacted and
// the connection reset, Campaign returns the error and forgets its key. The session
// keeps the key alive, and all later candidates wait for ever (etcd #21128). Ours
// follows the queue by list and watch, so a compaction is no failure
// (etcd/watch.go), and revokes the lease on every exit (etcd/session.go).
func TestCampaign_leavesAnOrphanAfterCompaction(t *testing.T) {
	r := newRig(t)
	first := r.elect(r.session(r.raw), "first")
	session := r.session(r.cut, concurrency.WithTTL(2))
	candidate := concurrency.NewElection(session, electionPrefix)
	campaign := r.campaignCut(t.Context(), candidate, "second")
	// The watch began at the revision of the candidate's key. Changes of other keys
	// do not advance it.
	r.put("/elsewhere", "")
	if _, err := r.raw.Compact(t.Context(), r.put("/elsewhere", "")); err != nil {
		t.Fatal(err)
	}
	r.proxy.Cut(etcdtest.Reset)
	r.proxy.Restore()
	if err := receive(r, "Campaign", campaign); !errors.Is(err, rpctypes.ErrCompacted) {
		gone(t, "a compaction does not end Campaign as it did ("+text(err)+")", "the list and watch of "+ownElection)
		return
	}
	if err := candidate.Resign(t.Context()); err != nil {
		t.Errorf("resign: %v", err)
	}
	// Longer than its TTL: the session keeps it alive.
	deleted := r.deleted(electionPrefix, 4*time.Second)
	if len(deleted) != 0 || r.count(electionPrefix) != 2 {
		gone(t, "Campaign that fails deletes its key", "the revocation on every exit is still needed, but less of "+ownElection)
		return
	}
	if err := first.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), grace)
	defer cancel()
	third := concurrency.NewElection(r.session(r.raw), electionPrefix)
	if err := third.Campaign(ctx, "third"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("third candidate: got %v; want it to wait behind the orphan", err)
	}
}

// deleted returns the keys that are deleted for as long as d.
func (r *rig) deleted(prefix string, d time.Duration) (keys []string) {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	for resp := range r.raw.Watch(ctx, prefix, clientv3.WithPrefix()) {
		for _, ev := range resp.Events {
			if ev.Type == clientv3.EventTypeDelete {
				keys = append(keys, string(ev.Kv.Key))
			}
		}
	}
	return keys
}

// Worked around: a Campaign that is cancelled while etcd is unreachable does not
// return: it resigns with the client's context, which has no deadline. Ours ends
// with its context, and its clean-up has a time limit (etcd/session.go, revoke).
func TestCampaign_doesNotReturnWhenCancelled(t *testing.T) {
	r := newRig(t)
	r.elect(r.session(r.raw), "first")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	campaign := r.campaignCut(ctx, concurrency.NewElection(r.session(r.cut), electionPrefix), "second")
	r.proxy.Cut(etcdtest.Blackhole)
	cancel()
	if err, came := within(campaign); came {
		gone(t, "a cancelled Campaign returns while etcd is unreachable ("+text(err)+")", "the bounded exit of "+ownElection)
		return
	}
	r.proxy.Restore()
	if err := receive(r, "Campaign", campaign); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Worked around: a Resign that fails forgets key and session. Another try does
// nothing and returns nil (etcd #22123). Ours resigns by revoking the lease; if that
// fails, the lease ends by itself.
func TestResign_forgetsItsKeyWhenItFails(t *testing.T) {
	r := newRig(t)
	leader := r.elect(r.session(r.cut), "leader")
	r.proxy.Cut(etcdtest.Blackhole)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := leader.Resign(ctx); err == nil {
		t.Fatal("resigned although etcd is unreachable")
	}
	// What was held must not arrive late.
	r.proxy.Cut(etcdtest.Reset)
	r.proxy.Restore()
	err := leader.Resign(t.Context())
	if n := r.count(electionPrefix); err != nil || n != 1 {
		gone(t, "Resign can be tried again ("+text(err)+")", "resigning by the lease alone (etcd/session.go, revoke)")
	}
}

// Worked around: a Campaign whose first transaction is not answered returns an
// error, and may leave its key, which its session keeps alive. A candidate with
// another session then waits behind it. Ours gives up the session, and with it the
// lease, after any failure.
func TestCampaign_unansweredLeavesItsKey(t *testing.T) {
	r := newRig(t)
	session := r.session(r.cut)
	r.proxy.Cut(etcdtest.BlackholeResponses)
	ctx, cancel := context.WithCancel(t.Context())
	failed := r.campaign(ctx, concurrency.NewElection(session, electionPrefix), "first")
	cancel()
	if err := receive(r, "Campaign", failed); err == nil {
		t.Fatal("Campaign returned nil without an answer")
	}
	r.proxy.Restore()
	if n := r.count(electionPrefix); n != 1 {
		gone(t, "a Campaign that fails deletes its key", "giving up the session with each failure")
		return
	}
	ctx, cancel = context.WithTimeout(t.Context(), grace)
	defer cancel()
	second := concurrency.NewElection(r.session(r.raw), electionPrefix)
	if err := second.Campaign(ctx, "second"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a candidate with another session: got %v; want it to wait", err)
	}
	// A candidate with the same session finds its key and leads.
	if err := concurrency.NewElection(session, electionPrefix).Campaign(t.Context(), "first"); err != nil {
		t.Errorf("a candidate with the same session: %v", err)
	}
}

// Worked around: an Observe that cannot continue, for example after a compaction and
// a lost connection, closes its channel without an error. A caller that waits for
// the next leader cannot distinguish that from a regular end (etcd #7815). Ours
// lists the queue again (etcd/watch.go).
func TestObserve_endsWithoutAReason(t *testing.T) {
	r := newRig(t)
	r.elect(r.session(r.raw), "first")
	observed := concurrency.NewElection(r.session(r.cut), electionPrefix).Observe(t.Context())
	receive(r, "the first leader", observed)
	r.until("the observer to watch", func() bool { return r.watching.Load() > 0 })
	r.put("/elsewhere", "")
	if _, err := r.raw.Compact(t.Context(), r.put("/elsewhere", "")); err != nil {
		t.Fatal(err)
	}
	r.proxy.Cut(etcdtest.Reset)
	r.proxy.Restore()
	select {
	case _, open := <-observed:
		if open {
			t.Error("observed a leader that is none")
		}
	case <-time.After(2 * grace):
		gone(t, "Observe continues after a compaction", "the list and watch of "+ownElection)
	}
}

// Worked around: the servers' own election, for clients of any language, accepts a
// candidate without a lease and gives it one of 60 seconds. No client keeps it alive,
// and the key stays although the candidate left. Ours are keys on the lease of a
// session (election/campaign.go).
func TestCampaign_ofTheServerLeavesItsKey(t *testing.T) {
	r := newRig(t)
	candidate := v3electionpb.NewElectionClient(r.cut.ActiveConnection())
	won, err := candidate.Campaign(t.Context(), &v3electionpb.CampaignRequest{Name: []byte(electionPrefix), Value: []byte("first")})
	if err != nil {
		t.Fatal(err)
	}
	r.proxy.Cut(etcdtest.Reset)
	lease := clientv3.LeaseID(won.Leader.Lease)
	r.until("a second of the lease is over", func() bool { return r.left(lease) < 59 })
	if left := r.left(lease); left < 30 || r.count(electionPrefix) != 1 {
		gone(t, "the server's election drops a candidate that left", "nothing of ours (nor does anything of ours call it)")
	}
}

// Relied on: the layout of the library's election. Ours is the same, so that the
// library's tools show which node leads: prefix, slash, lease in hexadecimal; the
// lowest create revision leads (keyspace/keyspace.go, Leader).
func TestElection_layout(t *testing.T) {
	r := newRig(t)
	keys := keyspace.Under("/lockstep/")
	session := r.session(r.raw)
	e := concurrency.NewElection(session, strings.TrimSuffix(keys.Leaders(), "/"))
	ours := keys.Leader(int64(session.Lease()))
	r.put(ours, "a", clientv3.WithLease(session.Lease()))
	resp, err := e.Leader(t.Context())
	if err != nil || string(resp.Kvs[0].Value) != "a" {
		t.Fatalf("the library does not see our leader: %v", err)
	}
	if err := e.Campaign(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if e.Key() != ours {
		broken(t, "an election's key is "+e.Key(), "that the library's tools show the leader (keyspace/keyspace.go)")
	}
}
