package election

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// putPromise registers a controller that no sidecar of the test runs, whose
// record may be passed over.
func (w *world) putPromise(id, release string, after time.Duration) {
	w.Helper()
	w.put(keys.Node(protocol.NodeID(id)), fleet.Encode(protocol.Node{
		ID: protocol.NodeID(id), Roles: protocol.Roles{Controller: true},
		Version: protocol.Version{Release: rel(w.T, release)}, FenceAfter: after,
	}))
}

// A dead node is passed over when it has been gone for as long as its record
// says, by the clock alone; one whose record does not say blocks on.
func TestElection_passesOverTheDead(t *testing.T) {
	w := newWorld(t)
	w.putPromise("promised", "0.9.0", 2*time.Second)
	w.putRecord("silent", "0.9.0")
	w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}, MinCompatible: rel(t, "0.9.0")})
	revision := w.statusRevision()
	n := w.start("a", "1.0.0", options{a: "1.0.0"})
	both := await(t, n.election.State(), "both block", func(s State) bool { return len(s.Step.Blockers) == 2 })
	promised, silent := both.Absences["promised"], both.Absences["silent"]
	if promised.Since.IsZero() || promised.Expires.Sub(promised.Since) != 2*time.Second {
		t.Errorf("the one that promised: got %+v", promised)
	}
	if silent.Since.IsZero() || !silent.Expires.IsZero() {
		t.Errorf("the one that did not: got %+v", silent)
	}
	one := await(t, n.election.State(), "one blocks", func(s State) bool { return len(s.Step.Blockers) == 1 })
	if one.Step.Blockers[0].Node != "silent" || one.Epoch != both.Epoch || w.statusRevision() != revision {
		t.Errorf("got %s in epoch %d, status at %d", one.Step, one.Epoch, w.statusRevision())
	}
	if gone := time.Since(promised.Since); gone < 2*time.Second {
		t.Errorf("passed over after %s", gone)
	}
	w.delete(keys.Node("silent"))
	if s := n.awaitStatus(protocol.Done, "1.0.0"); s.MinCompatible != rel(t, "1.0.0") {
		t.Errorf("got %s", s)
	}
}

// A node that is cut off has closed its gate when the leader passes over it, and
// comes back with a registration that is newer than what shut it out.
func TestElection_passesOverTheCutOff(t *testing.T) {
	w := newWorld(t)
	w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}, MinCompatible: rel(t, "0.9.0")})
	b := w.start("b", "0.9.0", options{ttl: 3 * time.Second, fenceAfter: 2 * time.Second})
	await(t, b.registrar.Registration(), "registered", func(r protocol.Registration) bool { return r.Confirmed })
	a := w.start("a", "1.0.0", options{a: "1.0.0"})
	if step := a.awaitStep(protocol.StepAwait); len(step.Blockers) != 1 || step.Blockers[0].Node != "b" {
		t.Errorf("got %s, want b to block", step)
	}
	b.proxy.Cut(etcdtest.Blackhole)
	restricted := await(t, a.store.Observed(), "restricted", func(o status.Observed) bool {
		return o.View.Status.MinCompatible == rel(t, "1.0.0")
	})
	if got := b.registrar.Registration().Get(); !got.Fenced || got.Confirmed {
		t.Errorf("b is passed over while it shows %+v", got)
	}
	b.proxy.Restore()
	back := await(t, b.registrar.Registration(), "registered again", func(r protocol.Registration) bool { return r.Confirmed })
	if back.Revision <= restricted.View.Revision {
		t.Errorf("b is back with the registration of revision %d, and was shut out at %d", back.Revision, restricted.View.Revision)
	}
}

// A leader counts anew, whatever another has counted before it.
func TestElection_countsAnew(t *testing.T) {
	w := newWorld(t)
	w.putPromise("dead", "0.9.0", time.Hour)
	w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}, MinCompatible: rel(t, "0.9.0")})
	a := w.start("a", "1.0.0", options{a: "1.0.0"})
	counting := func(s State) bool { return len(s.Step.Blockers) == 1 }
	first := await(t, a.election.State(), "a counts", counting)
	a.stop()
	if left := a.election.State().Get().Absences; len(left) != 0 {
		t.Errorf("a leads no more and shows %+v", left)
	}
	b := w.start("b", "1.0.0", options{a: "1.0.0"})
	second := await(t, b.election.State(), "b counts", counting)
	if !second.Absences["dead"].Since.After(first.Absences["dead"].Since) {
		t.Errorf("got %+v after %+v", second.Absences, first.Absences)
	}
}

func TestAbsences(t *testing.T) {
	const after = time.Minute
	begin := time.Now()
	record := func(alive bool, revision int64) protocol.Record {
		return protocol.Record{ID: "n", Alive: alive, Revision: revision, Node: protocol.Node{ID: "n", FenceAfter: after}}
	}
	type look struct {
		at      time.Duration
		record  protocol.Record
		rewinds int
		want    time.Duration // how long it has been gone
	}
	for _, tc := range []struct {
		name  string
		looks []look
	}{
		{"counts from the first look", []look{{0, record(false, 5), 0, 0}, {time.Second, record(false, 5), 0, time.Second}, {after, record(false, 5), 0, after}}},
		{"alive in between", []look{{0, record(false, 5), 0, 0}, {1, record(true, 5), 0, 0}, {after, record(false, 5), 0, 0}, {after + 3, record(false, 5), 0, 3}}},
		{"written in between: it may have been alive", []look{{0, record(false, 5), 0, 0}, {after, record(false, 6), 0, 0}, {after + 3, record(false, 6), 0, 3}}},
		{"the store went back in between", []look{{0, record(false, 5), 0, 0}, {after, record(false, 5), 1, 0}, {after + 3, record(false, 5), 1, 3}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var a absences
			for _, l := range tc.looks {
				f := protocol.Fleet{Records: []protocol.Record{l.record}}
				now := begin.Add(l.at)
				a.count(f, l.rewinds, now, now)
				if got := f.Records[0].Gone; got != l.want {
					t.Errorf("at %s: gone for %s, want %s", l.at, got, l.want)
				}
			}
		})
	}
	t.Run("counts from when the first answer came, to when the next look began", func(t *testing.T) {
		var a absences
		f := protocol.Fleet{Records: []protocol.Record{record(false, 5)}}
		a.count(f, 0, begin, begin.Add(10*time.Second))
		a.count(f, 0, begin.Add(15*time.Second), begin.Add(20*time.Second))
		if got := f.Records[0].Gone; got != 5*time.Second {
			t.Errorf("gone for %s, want 5s", got)
		}
	})
}

// A node that was passed over and registers again before the leader's write: the
// guard does not hold.
func TestLeadership_passedOverComesBack(t *testing.T) {
	w := newWorld(t)
	w.putStatus(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: rel(t, "0.9.0")}, MinCompatible: rel(t, "0.9.0")})
	w.putPromise("back", "0.9.0", time.Minute)
	n := w.start("a", "0.9.0", options{})
	n.awaitStep(protocol.StepHold)
	client := n.election.cfg.Client
	err := client.WithSession(t.Context(), time.Minute, func(ctx context.Context, s *etcd.Session) error {
		key := keys.Leader(int64(s.Lease()))
		epoch, err := n.election.enqueue(ctx, s, key)
		if err != nil {
			return err
		}
		local := n.local.Get()
		local.Version.Release, local.Constraints.MinApiserver = rel(t, "1.0.0"), rel(t, "1.0.0")
		other := New(n.election.cfg)
		other.cfg.Local = event.New(local)
		l := other.newLeadership(s, key, epoch)
		l.clock.now = time.Now()
		in, err := l.gather(ctx)
		if err != nil {
			return err
		}
		l.clock.now = l.clock.now.Add(time.Hour)
		if in, err = l.gather(ctx); err != nil {
			return err
		}
		in.Fleet.Records = in.Fleet.Records[1:] // but a, which is of the old release
		step := protocol.Next(in)
		if step.Kind != protocol.StepWrite || step.Guard.FleetRevision != in.Fleet.Revision {
			return fmt.Errorf("got %s, want a guarded write", step)
		}
		w.putPromise("back", "0.9.0", time.Minute)
		if err := n.store.Write(ctx, key, step.Status, step.Guard); !errors.Is(err, status.ErrGuard) {
			return fmt.Errorf("write: got %w, want ErrGuard", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A store that goes back between two looks of a leader may have lost what a node
// wrote when it came back: nothing that was counted before counts in it.
func TestLeadership_storeWentBack(t *testing.T) {
	const key = prefix + "kubernetes/reconciler/leader/1"
	addr, epoch := "", int64(0)
	start := func() (*etcdtest.Server, *world) {
		t.Helper()
		server, err := etcdtest.Start(etcdtest.Config{Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		w := &world{T: t, server: server, raw: server.Client(t)}
		addr, epoch = server.Addr(), w.put(key, []byte("a"))
		w.putPromise("dead", "0.9.0", time.Minute)
		return server, w
	}
	server, w := start()
	for range 10 {
		w.put("/elsewhere", nil)
	}
	client, err := etcd.NewClient(etcd.Config{Endpoints: server.Endpoints(), Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	e := New(Config{Client: client, Local: event.New(protocol.Local{ID: "a"}), Applier: applier{newAPI(), "a"}})
	l := e.newLeadership(nil, key, epoch)
	l.clock.now = time.Now()
	if _, err := l.gather(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	start() // what stood there at first, and nothing since
	l.clock.now = l.clock.now.Add(time.Hour)
	in, err := l.gather(t.Context())
	for err != nil && backoff.Sleep(t.Context(), etcdPause) {
		l.clock.now = time.Now() // of the next turn
		in, err = l.gather(t.Context())
	}
	if r, found := in.Fleet.Record("dead"); err != nil || !found || r.Gone != 0 || client.Rewound().Get() != 1 {
		t.Errorf("got %+v, %v, want it counted anew", r, err)
	}
}
