package election

import (
	"context"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
	"github.com/lockstep-dev/lockstep/trace"
)

// maxDeletions is how many records a leader deletes in one round, so that its
// other work does not wait for long. Each deletion changes the fleet, so another
// round follows at once.
const maxDeletions = 16

// deleteExpired deletes the ephemeral records that expired for this leader
// (docs/protocol-nodes.md#ephemeral). No decision depends on it: the leader ignores these
// records already. After a failure it pauses.
func (l *leadership) deleteExpired(ctx context.Context, in protocol.Input) {
	due := noderecord.DeletionsDue(in.Fleet, in.Local.ID)
	if len(due) == 0 || !l.clock.deletions.due(l.clock.now) {
		return
	}
	for _, r := range due[:min(len(due), maxDeletions)] {
		if !l.session.Valid() {
			return // it is about to end
		}
		l.trace(trace.Event{Delete: &trace.Delete{Record: r}})
		turn, _ := in.Fleet.Turns.Of(r.ID)
		deleted, err := fleet.DeleteExpired(ctx, l.e.cfg.Client, fleet.Deletion{Record: r, Turn: turn, LeaderKey: l.key, Epoch: l.epoch})
		if err != nil {
			l.e.cfg.Log.Warn("expired record not deleted, trying again", "record", string(r.ID), "err", err)
			l.clock.deletions.failed()
			return
		}
		l.clock.deletions.reset()
		if deleted {
			l.e.metrics.deletions.Inc()
			l.e.cfg.Log.Info("expired record deleted", "record", string(r.ID), "gone", r.Gone, "expireAfter", r.Node.ExpireAfter)
		}
	}
}
