package app

import (
	"context"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// LookOptions say at which cluster to look, and with which bundle.
type LookOptions struct {
	Kubeconfig     string
	Bundle         *bundle.Bundle
	AllowMassPrune bool
}

// Looker compares a bundle with a cluster, for people. It writes nothing.
type Looker struct {
	reconciler *reconcile.Reconciler
}

// NewLooker returns a Looker. It connects to nothing.
func NewLooker(opts LookOptions) (*Looker, error) {
	cfg, err := restConfig(opts.Kubeconfig)
	if err != nil {
		return nil, err
	}
	r, err := reconcile.New(reconcile.Config{
		RESTConfig: cfg, Bundle: event.New(opts.Bundle), AllowMassPrune: opts.AllowMassPrune,
	})
	if err != nil {
		return nil, err
	}
	return &Looker{reconciler: r}, nil
}

// Preview says what the leader would do with the objects.
func (l *Looker) Preview(ctx context.Context) (reconcile.Preview, error) {
	return l.reconciler.Preview(ctx)
}

// Mark reads which contents may be present.
func (l *Looker) Mark(ctx context.Context) (protocol.Mark, error) {
	return l.reconciler.Survey(ctx, protocol.Work{}, time.Time{})
}
