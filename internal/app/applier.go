package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
)

// applier is the reconciler as the election wants it: it tells which errors say
// nothing of the API.
type applier struct{ *reconcile.Reconciler }

// Reconcile is that of the reconciler. That the lease is over, or the bundle
// another one by now, is no fault of the API.
func (a applier) Reconcile(ctx context.Context, work protocol.Work, lease func() time.Time, quiet time.Time) (protocol.Outcome, error) {
	out, err := a.Reconciler.Reconcile(ctx, work, lease, quiet)
	_, changed := errors.AsType[*reconcile.BundleChangedError](err)
	if changed || errors.Is(err, reconcile.ErrLeaseOver) {
		err = fmt.Errorf("%w: %w", election.ErrNotDue, err)
	}
	return out, err
}
