package election

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// presenceKey reads the presence of a node; nil: there is none.
func (w *world) presenceKey(id string) *etcd.KV {
	w.Helper()
	resp, err := w.raw.Get(w.Context(), keys.Presence(protocol.NodeID(id)))
	if err != nil {
		w.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return nil
	}
	kv := etcd.NewKV(resp.Kvs[0])
	return &kv
}

func (w *world) leases() int {
	w.Helper()
	resp, err := w.raw.Leases(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return len(resp.Leases)
}

// A sidecar has one lease. A leader that resigns deletes its key, and its presence stays.
func TestElection_oneLease(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{})
	epoch := a.awaitState(protocol.Leading).Epoch
	a.awaitStep(protocol.StepHold)
	waits := w.start("b", "1.0.0", options{})
	waits.awaitState(protocol.Campaigning)
	if n := w.leases(); n != 2 {
		t.Errorf("%d leases, want one of each node, for its presence and its key", n)
	}
	before, other := w.presenceKey("a"), w.presenceKey("b")
	newer := w.start("c", "2.0.0", options{})
	newer.awaitState(protocol.Leading)
	if after := w.presenceKey("a"); after == nil || after.CreateRevision != before.CreateRevision {
		t.Errorf("the presence did not outlive the leadership: %+v", after)
	}
	if after := w.presenceKey("b"); after == nil || after.CreateRevision != other.CreateRevision {
		t.Errorf("the presence did not outlive the candidacy: %+v", after)
	}
	waits.stop()
	newer.stop()
	w.delete(keys.Node("c"))
	again := await(t, a.election.State(), "a leads again", func(s State) bool { return s.Election == protocol.Leading })
	if after := w.presenceKey("a"); again.Epoch <= epoch || after.CreateRevision != before.CreateRevision || w.leases() != 1 {
		t.Errorf("epoch %d after %d; the presence is %+v, %d leases", again.Epoch, epoch, after, w.leases())
	}
}

// A leader that is cut off gives up, and cannot delete its key. It gives up its lease with it: the next
// lease of its presence must not keep the key.
func TestElection_keyNotDeleted(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{ttl: 6 * time.Second}) // a request takes less than two of them
	epoch := a.awaitState(protocol.Leading).Epoch
	lease := a.presence.Lease().Get()
	a.proxy.Cut(etcdtest.BlackholeResponses)
	a.awaitState(protocol.Ineligible)
	await(t, a.presence.Lease(), "no presence", func(l clientv3.LeaseID) bool { return l == clientv3.NoLease })
	a.proxy.Cut(etcdtest.Reset)
	a.proxy.Restore()
	await(t, a.election.State(), "another epoch", func(s State) bool { return s.Election == protocol.Leading && s.Epoch > epoch })
	if now := a.presence.Lease().Get(); now == lease || w.presenceKey("a") == nil || w.leases() != 1 {
		t.Errorf("the lease is %x after %x, %d leases", now, lease, w.leases())
	}
}

// cordon takes a node out of service, not through its own connection.
func (w *world) cordon(id protocol.NodeID) {
	w.Helper()
	change := fleet.CordonChange{Cordon: protocol.Cordon{Since: time.Now().UTC()}, Force: true}
	if _, err := fleet.SetCordon(w.Context(), newClient(w.T, w.server.Addr()), id, change); err != nil {
		w.Fatal(err)
	}
}

// A candidate that leaves the queue, and cannot delete its key, gives up its lease: nothing else ends the
// key, since the node does not campaign again.
func TestElection_leavesWithoutAnswer(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{ttl: time.Hour})
	a.awaitStep(protocol.StepHold)
	b := w.start("b", "1.0.0", options{ttl: time.Hour})
	b.awaitState(protocol.Campaigning)
	await(t, a.election.queue, "two candidates", func(l etcd.Listing) bool { return len(l.KVs) == 2 })
	b.proxy.Cut(etcdtest.BlackholeRequests) // its watches go on
	w.cordon("b")
	await(t, b.mayLead, "b has left the queue", func(may bool) bool { return !may })
	b.proxy.Cut(etcdtest.Reset) // so that no request arrives late
	b.proxy.Restore()
	await(t, a.election.queue, "a alone", func(l etcd.Listing) bool { return len(l.KVs) == 1 })
}

// A leader that resigns deletes its key in the transaction that writes the status. It does not delete it
// again, so it keeps its presence also if etcd does not answer any more.
func TestElection_resignsInOneWrite(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{ttl: time.Hour})
	a.awaitStep(protocol.StepHold)
	lease := a.presence.Lease().Get()
	a.election.cfg.Client.Observe(func(verb etcd.Verb, _ etcd.Outcome, _ time.Duration) {
		if verb != etcd.Write {
			return
		}
		resp, err := w.raw.Get(t.Context(), keys.Leaders(), clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && resp.Count == 0 {
			a.proxy.Cut(etcdtest.BlackholeRequests)
		}
	})
	w.cordon("a")
	await(t, a.mayLead, "a has left the queue", func(may bool) bool { return !may })
	a.proxy.Restore()
	if now := a.presence.Lease().Get(); now != lease {
		t.Errorf("the presence is on lease %x after %x", now, lease)
	}
}

// A candidate that does not know whether it entered the election gives up its lease: its key may be in
// etcd, or come later, and no campaign of it knows that.
func TestElection_entersWithoutAnswer(t *testing.T) {
	w := newWorld(t)
	proxy := etcdtest.NewProxy(t, w.server.Addr())
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://" + proxy.Addr()}, Prefix: prefix, RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	e := New(Config{Client: client, Local: event.New(localOf(t, "a", "1.0.0", "0.0.0")), Log: slog.New(slog.DiscardHandler)})
	entered := make(chan error, 1)
	err = client.WithSession(t.Context(), time.Minute, func(held context.Context, owner *etcd.Session) error {
		if err := client.Check(held); err != nil { // the connection is there, so the entry arrives
			return err
		}
		proxy.Cut(etcdtest.BlackholeResponses)
		go func() { entered <- owner.Share(held, e.campaign) }()
		<-held.Done()
		proxy.Restore()
		return context.Cause(held)
	})
	if !errors.Is(err, etcd.ErrSessionLost) {
		t.Errorf("got %v", err)
	}
	if <-entered == nil {
		t.Error("entered without an answer")
	}
	until(t, "no key", func() bool {
		resp, err := w.raw.Get(t.Context(), keys.Leaders(), clientv3.WithPrefix())
		return err == nil && resp.Count == 0 && w.leases() == 0
	})
}

// A sidecar stops while it enters the election. It keeps its presence: its services are not stopped yet.
func TestElection_stopsWhileItEnters(t *testing.T) {
	w := newWorld(t)
	proxy := etcdtest.NewProxy(t, w.server.Addr())
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://" + proxy.Addr()}, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	e := New(Config{Client: client, Local: event.New(localOf(t, "a", "1.0.0", "0.0.0")), Log: slog.New(slog.DiscardHandler)})
	candidates := func() int64 {
		resp, err := w.raw.Get(t.Context(), keys.Leaders(), clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return resp.Count
	}
	err = client.WithSession(t.Context(), time.Minute, func(held context.Context, owner *etcd.Session) error {
		if err := client.Check(held); err != nil { // the connection is there, so the entry arrives
			return err
		}
		proxy.Cut(etcdtest.BlackholeResponses)
		running, stop := context.WithCancel(held)
		defer stop()
		left := make(chan error, 1)
		go func() { left <- owner.Share(running, e.campaign) }()
		until(t, "its key", func() bool { return candidates() == 1 })
		stop()
		proxy.Restore()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if held.Err() != nil {
			t.Errorf("the session ended: %v", context.Cause(held))
		}
		if candidates() != 0 {
			t.Error("it is still a candidate")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// An entry that was never sent cannot leave a key: the session goes on.
func TestElection_entryNotSent(t *testing.T) {
	w := newWorld(t)
	client, err := etcd.NewClient(etcd.Config{Endpoints: w.server.Endpoints(), Prefix: prefix, RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	e := New(Config{Client: client, Local: event.New(localOf(t, "a", "1.0.0", "0.0.0")), Log: slog.New(slog.DiscardHandler)})
	err = client.WithSession(t.Context(), 5*time.Minute, func(held context.Context, owner *etcd.Session) error {
		w.server.Stop()
		until(t, "no connection", func() bool { return client.Check(held) != nil })
		if err := owner.Share(held, e.campaign); err == nil {
			t.Error("entered without an etcd")
		}
		if held.Err() != nil {
			t.Errorf("the session ended: %v", context.Cause(held))
		}
		return w.server.Restart()
	})
	if err != nil {
		t.Error(err)
	}
}

// If etcd refuses to let a candidate in, as it does when its database is full, the presence stays: it
// could not get another lease.
func TestElection_entryRefused(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", "1.0.0", options{})
	a.awaitStep(protocol.StepHold)
	lease := a.presence.Lease().Get()
	empty := etcdtest.Fill(t, w.raw)
	queue := await(t, a.election.queue, "a leads", func(l etcd.Listing) bool { return len(l.KVs) == 1 })
	w.delete(queue.KVs[0].Key)
	a.awaitState(protocol.Ineligible)
	client := a.election.cfg.Client
	refused := client.Contact().Get().Refused
	await(t, client.Contact(), "entries that are refused", func(c etcd.Contact) bool { return c.Refused >= refused+3 })
	if now := a.presence.Lease().Get(); now != lease || w.presenceKey("a") == nil {
		t.Errorf("the presence is on lease %x after %x", now, lease)
	}
	empty()
	a.awaitState(protocol.Leading)
	if now := a.presence.Lease().Get(); now != lease {
		t.Errorf("leads on lease %x after %x", now, lease)
	}
}

// A restore brings back the key of a node that led when the backup was made. The node runs since then, so
// the lease of its presence lives on, and it takes no part in the election any more.
func TestElection_keyBroughtBack(t *testing.T) {
	data, backup := t.TempDir(), t.TempDir()+"/backup"
	w := newWorld(t)
	w.server = w.server.Replace(t, etcdtest.Config{Dir: data})
	broken, breaks := newAPI(t), make(chan error, 1)
	broken.expect("keep", endsWith(breaks))
	a := w.start("a", "1.0.0", options{api: broken, yieldAfter: time.Second})
	broken.awaitCalls(t, "keep", 1)
	lease := a.presence.Lease().Get()
	w.server.Stop()
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Restart(); err != nil {
		t.Fatal(err)
	}

	broken.expect("", failsWith(errRefused))
	breaks <- errRefused
	a.awaitState(protocol.Withdrawn)
	b := w.start("b", "1.0.0", options{})
	b.awaitStep(protocol.StepHold)
	if now := a.presence.Lease().Get(); now != lease {
		t.Fatalf("the lease is %x after %x, and the backup does not have it", now, lease)
	}
	for range 20 {
		w.put("/elsewhere", nil)
	}
	for _, n := range []*node{a, b} {
		until(t, "the client knows the newest revision", func() bool { return n.election.cfg.Client.Check(t.Context()) == nil })
	}

	w.server = w.server.Replace(t, etcdtest.Config{Dir: backup})
	t.Cleanup(func() { a.stop(); b.stop() })
	until(t, "b leads in the restored store", func() bool {
		resp, err := w.raw.Get(t.Context(), keys.Leaders(), clientv3.WithPrefix())
		s := b.election.State().Get()
		return err == nil && resp.Count == 1 && s.Election == protocol.Leading && resp.Kvs[0].CreateRevision == s.Epoch
	})
	await(t, a.presence.Lease(), "a presence of a on another lease", func(l clientv3.LeaseID) bool { return l != clientv3.NoLease && l != lease })
}
