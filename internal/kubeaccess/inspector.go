package kubeaccess

import (
	"context"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/kubeconfig"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
)

// InspectorConfig selects the cluster and the bundle to compare.
type InspectorConfig struct {
	Kubeconfig     string
	Bundle         *bundle.Bundle
	AllowMassPrune bool
}

// Inspector compares a bundle with a cluster. It writes nothing.
type Inspector struct {
	reconciler *reconcile.Reconciler
}

// NewInspector returns an Inspector. It reads the kubeconfig and sends no
// request.
func NewInspector(cfg InspectorConfig) (*Inspector, error) {
	kube, err := kubeconfig.Read(cfg.Kubeconfig)
	if err != nil {
		return nil, err
	}
	r, err := reconcile.New(reconcile.Config{
		RESTConfig: kube, Bundle: event.New(cfg.Bundle), AllowMassPrune: cfg.AllowMassPrune,
	})
	if err != nil {
		return nil, err
	}
	return &Inspector{reconciler: r}, nil
}

// Preview returns the action of a leader on each object.
func (i *Inspector) Preview(ctx context.Context) (report.Preview, error) {
	return i.reconciler.Preview(ctx)
}

// Mark reads which bundle contents may be present in the cluster.
func (i *Inspector) Mark(ctx context.Context) (protocol.Mark, error) {
	return i.reconciler.Survey(ctx, protocol.Work{}, time.Time{})
}
