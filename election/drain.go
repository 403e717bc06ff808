package election

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/trace"
)

// resignTimeout bounds the transaction that gives up a leadership. If etcd does not
// answer it, the lease ends by itself, and the next leader waits.
const resignTimeout = time.Second

// pendingRequest is a request of this leader whose outcome is unknown.
type pendingRequest struct {
	content protocol.Content
	until   time.Time // it cannot take effect later
}

// noteOutcome remembers whether an ended job left a request of unknown outcome
// behind.
func (l *leadership) noteOutcome(j *job) {
	sent := j.outcome.Unsure
	if sent.IsZero() {
		return
	}
	now := time.Now()
	l.pending = slices.DeleteFunc(l.pending, func(p pendingRequest) bool { return !now.Before(p.until) })
	l.pending = append(l.pending, pendingRequest{content: j.step.Work.Content, until: sent.Add(l.e.drainTime)})
}

// quiet returns the instant from which on no request of a former leader, and no
// request of this one for other content, can take effect in the API; zero: none
// can already (docs/protocol-objects.md#drain). It asks no clock of another node: it counts
// from the confirmation of this leadership, when the former leaders' leases had
// ended.
func (l *leadership) quiet(c protocol.Content) time.Time {
	var at time.Time
	if l.progress.Predecessors != protocol.Drained {
		at = l.clock.confirmed.Add(l.e.drainTime)
	}
	for _, p := range l.pending {
		if p.content != c && p.until.After(at) {
			at = p.until
		}
	}
	return at
}

// giveUp resigns gracefully. If no request of this leader or of a former one can
// take effect any more, the same transaction notes in the status that the next
// leader need not wait.
func (l *leadership) giveUp(ctx context.Context) {
	client := l.e.cfg.Client
	if l.clock.confirmed.IsZero() || !l.session.Valid() || !client.Contact().Get().Connected {
		return // the next leader waits
	}
	if l.e.rewinds() != l.rewinds {
		return // of the restored store, it cannot say who drained
	}
	// It must run after ctx ended, too.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	err := l.resign(clean)
	if errors.Is(err, status.ErrGuard) {
		// Either the status changed, or the key is deleted. A new snapshot
		// shows which.
		if in, gatherErr := l.gather(clean); gatherErr == nil {
			l.status = in.Status
			err = l.resign(clean)
		}
	}
	if err != nil {
		l.e.cfg.Log.Info("leadership ends with its lease, the next leader may have to wait", "err", err)
	}
}

func (l *leadership) resign(ctx context.Context) error {
	now := time.Now()
	facts := protocol.ResignFacts{
		Status: l.status, Leader: l.e.cfg.Local.Get().ID, Epoch: l.epoch, Predecessors: l.progress.Predecessors,
		Waited: !now.Before(l.clock.confirmed.Add(l.e.drainTime)), Ended: l.nonePending(now),
	}
	st, drained := protocol.Drain(facts)
	if !drained {
		return nil
	}
	l.trace(trace.Event{Resign: &trace.Resign{Facts: facts, Status: st, At: l.sinceConfirmed(now)}})
	v := status.Value{Status: st, Unknown: l.unknown}
	err := l.e.cfg.Store.Resign(ctx, l.key, v, protocol.Guard{Epoch: l.epoch, StatusRevision: l.status.Revision})
	l.deleted = err == nil
	return err
}

// nonePending reports whether no request of this leader can take effect any more.
func (l *leadership) nonePending(now time.Time) bool {
	return !slices.ContainsFunc(l.pending, func(p pendingRequest) bool { return now.Before(p.until) })
}
