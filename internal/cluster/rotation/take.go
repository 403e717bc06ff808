package rotation

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// take takes the next step of the rotation for all nodes.
func (w *Worker) take(ctx context.Context, r quorum.Rotation) error {
	step, next := r.Step(), r.Rotation
	switch step.Action {
	case membership.CreateCA:
		return w.create(ctx, r)
	case membership.EndRotation:
		if err := quorum.EndRotation(ctx, w.cfg.Client, r); err != nil {
			return err
		}
		w.cfg.After("end")
		w.cfg.Log.Info("the CA of the cluster was replaced", "ca", r.Hash.String(), "since", r.Started)
		return nil
	case membership.StartOver:
		w.cfg.Log.Warn("a node was removed that may have the key of the new CA, so another CA is created", "nodes", membership.LostKeys(r.Facts))
		next = record.Rotation{Phase: membership.RotationRequested, Started: r.Started}
	case membership.AllowKey:
		next.Given = append(slices.Clone(next.Given), step.Node)
	case membership.GiveTurn:
		next.Turn = step.Node
	case membership.BeginIssuing:
		next.Phase, next.Turn = membership.RotationIssuing, ""
	case membership.BeginDropping:
		next.Phase, next.Turn = membership.RotationDropping, ""
	default:
		return nil
	}
	if next.Phase != r.Phase {
		next.Since = time.Now()
	}
	if err := quorum.WriteRotation(ctx, w.cfg.Client, r.Revision, next); err != nil {
		return err
	}
	w.cfg.After("step")
	w.cfg.Log.Info("the CA of the cluster is being replaced",
		"phase", record.PhaseText(next.Phase), "turn", string(next.Turn), "waits", step.Waits)
	return nil
}

// create makes the new CA. Its key is on the disk before the others learn of the CA.
func (w *Worker) create(ctx context.Context, r quorum.Rotation) error {
	ca, err := pki.NewNext(w.cfg.PKI, w.cfg.ClusterID)
	if err != nil {
		return err
	}
	w.cfg.After("create")
	next := record.Rotation{
		Phase: membership.RotationTrusting, Started: r.Started, Since: time.Now(),
		Certificate: string(ca.CertPEM()), Hash: ca.Hash(), Given: []protocol.NodeID{w.cfg.Node},
	}
	return quorum.WriteRotation(ctx, w.cfg.Client, r.Revision, next)
}
