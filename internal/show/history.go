package show

import (
	"context"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
)

// KeepHistory reports each snapshot to the journal until ctx ends. The gate reports its verdicts
// directly: one may last shorter than a snapshot.
func (s *Show) KeepHistory(ctx context.Context) error {
	for {
		now, snapshotChanged := s.snapshot.Load()
		warnings, warningsChanged := s.warned.Load()
		s.cfg.Observe(historyFacts(now, warnings.reported))
		if !event.Wait(ctx, snapshotChanged, warningsChanged) {
			return ctx.Err()
		}
	}
}

// historyFacts returns the facts of a snapshot that are worth keeping.
func historyFacts(s httpapi.Snapshot, reported []protocol.Warning) history.Facts {
	leading := s.Election.State == protocol.Leading
	out := history.Facts{
		Node: s.Local.ID, Reached: s.Etcd.Reached, Override: s.Override, Warnings: reported,
		Digest: s.Local.Digest, Version: s.Local.Version, Services: s.Services, Members: s.Cluster.Members,
		Repairs: s.Reconcile.Drift.Repairs, Repaired: s.Reconcile.Drift.Repaired,
		Pass: s.Reconcile.LastSuccess.Time, Pruned: s.Reconcile.Objects.Pruned, PrunedObjects: s.Reconcile.PrunedObjects,
		Leading: leading, Leader: s.Election.Leader, Epoch: s.Election.Epoch, Status: s.Status, Fleet: s.Fleet, Store: s.Etcd.Store,
	}
	if leading {
		out.Blockers = s.Election.Step.Blockers
	}
	if !s.Etcd.Connected {
		out.EtcdProblem = "no answer"
	}
	if s.APIServer.Enabled && !s.APIServer.Ready && !s.APIServer.Since.IsZero() {
		reason, message := s.APIServer.Problem()
		out.APIServer = protocol.Verdict{Reason: reason, Message: message}
	}
	return out
}
