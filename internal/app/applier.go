package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/election"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/report"
)

// Reconciler makes the objects of the API what the bundle wants, and reports on
// them. An applier is one.
type Reconciler interface {
	election.Applier
	// Report follows what the reconciler has done.
	Report() *event.Value[report.Report]
	// Trouble returns why the API server cannot be used now; zero: it can.
	Trouble() report.Trouble
}

// applier is the reconciler in the form that the election declares. It marks the
// errors that are not about the Kubernetes API.
type applier struct{ *reconcile.Reconciler }

// Reconcile is that of the reconciler. An error because the lease has ended, or
// because the bundle has changed since, becomes ErrNotDue: the API has not failed.
func (a applier) Reconcile(ctx context.Context, work protocol.Work, lease func() time.Time, quiet time.Time) (protocol.Outcome, error) {
	out, err := a.Reconciler.Reconcile(ctx, work, lease, quiet)
	_, bundleChanged := errors.AsType[*reconcile.BundleChangedError](err)
	if bundleChanged || errors.Is(err, reconcile.ErrLeaseOver) {
		err = fmt.Errorf("%w: %w", election.ErrNotDue, err)
	}
	return out, err
}
