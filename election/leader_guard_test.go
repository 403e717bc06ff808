package election

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// decide gathers and asks the core, as a round of the leader does.
func (l *leadership) decide(ctx context.Context, t *testing.T) protocol.Step {
	t.Helper()
	in, err := l.gather(ctx)
	if err != nil {
		t.Fatal(err)
	}
	step := protocol.Next(in)
	if step.Kind == protocol.StepWrite && step.Guard.FleetRevision != in.Fleet.Revision {
		t.Errorf("got %s, want a write that fails if a record was written after revision %d", step, in.Fleet.Revision)
	}
	return step
}

func (w *world) wantGuardFails(ctx context.Context, l *leadership, step protocol.Step) {
	w.Helper()
	before := w.statusRevision()
	if err := l.e.cfg.Store.Write(ctx, l.key, status.Value{Status: step.Status}, step.Guard); !errors.Is(err, status.ErrGuard) {
		w.Errorf("write: got %v, want ErrGuard", err)
	}
	if after := w.statusRevision(); after != before {
		w.Errorf("the status was written, at revision %d", after)
	}
}

// The write of a restricted status loses the race with a record that it would shut
// out: the guard fails, and the next snapshot shows the blocker.
func TestLeadership_guardFails(t *testing.T) {
	w := newWorld(t)
	w.putStatus(doneAt(t, "0.9.0"))
	w.putRecord("b", "1.0.0")
	w.withLeadership(localOf(t, "a", "1.0.0", "1.0.0"), func(ctx context.Context, l *leadership) {
		step := l.decide(ctx, t)
		if step.Kind != protocol.StepWrite {
			t.Fatalf("got %s, want a write", step)
		}
		w.putRecord("b", "0.9.0")
		w.wantGuardFails(ctx, l, step)
		if step := l.decide(ctx, t); step.Kind != protocol.StepAwait || len(step.Blockers) != 1 || step.Blockers[0].Node != "b" {
			t.Errorf("after another snapshot: got %s, want b to block", step)
		}
	})
}

// An expired node registers again before the leader's write: the guard fails.
func TestLeadership_passedOverComesBack(t *testing.T) {
	w := newWorld(t)
	w.putStatus(doneAt(t, "0.9.0"))
	w.putExpiringRecord("back", "0.9.0", time.Minute)
	w.withLeadership(localOf(t, "a", "1.0.0", "1.0.0"), func(ctx context.Context, l *leadership) {
		if step := l.decide(ctx, t); step.Kind != protocol.StepAwait || len(step.Blockers) != 1 {
			t.Fatalf("got %s, want a blocker", step)
		}
		l.clock.now = l.clock.now.Add(time.Hour)
		step := l.decide(ctx, t)
		if step.Kind != protocol.StepWrite {
			t.Fatalf("after an hour: got %s, want a write", step)
		}
		w.putExpiringRecord("back", "0.9.0", time.Minute)
		w.wantGuardFails(ctx, l, step)
	})
}

// A leader whose lease may have ended writes no status, although etcd would accept
// it: key, status and records are as the guard wants them.
func TestLeadership_writesOnlyWhileItsLeaseIsValid(t *testing.T) {
	w := newWorld(t)
	proxy := etcdtest.NewProxy(t, w.server.Addr())
	client := newClient(t, proxy.Addr())
	e := New(Config{Client: client, Local: event.New(protocol.Local{}), Store: status.NewStore(client), TTL: 2 * time.Second, Log: slog.New(slog.DiscardHandler)})
	hold := func(ttl time.Duration, do func(held context.Context, s *etcd.Session) error) {
		t.Helper()
		if err := client.WithSession(t.Context(), ttl, do); err != nil {
			t.Error(err)
		}
	}
	write := func(s *etcd.Session) {
		key := keys.Leader(int64(s.Lease()))
		epoch := w.put(key, []byte("a")) // without the lease, so that it remains after it
		// Not with the session's context: that its requests fail is another guard.
		e.newLeadership(s, key, epoch).write(t.Context(), protocol.Step{
			Kind: protocol.StepWrite, Status: doneAt(t, "1.0.0"), Guard: protocol.Guard{Epoch: epoch},
		})
	}
	hold(2*time.Second, func(held context.Context, s *etcd.Session) error {
		proxy.Cut(etcdtest.Blackhole)
		<-held.Done()
		proxy.Restore()
		if s.Valid() {
			return errors.New("the session has ended and is valid")
		}
		write(s)
		if r := w.statusRevision(); r != 0 {
			t.Errorf("a leader whose lease may have ended wrote the status, at revision %d", r)
		}
		return nil
	})
	// Nothing except the lease prevented it:
	hold(time.Minute, func(_ context.Context, s *etcd.Session) error {
		write(s)
		if w.statusRevision() == 0 {
			t.Error("a leader with a valid lease did not write either")
		}
		return nil
	})
}
