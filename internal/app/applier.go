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
	"github.com/lockstep-dev/lockstep/report"
)

// Reconciler makes the objects in the API match the bundle, and reports on them. applier implements
// it.
type Reconciler interface {
	election.Applier
	// Report follows the reconciler's report.
	Report() *event.Value[report.Reconcile]
	// Trouble returns why the API server cannot be used now; zero: it can be used.
	Trouble() report.Trouble
}

// applier adapts the reconciler to the interface of the election. It marks the errors that are not
// about the Kubernetes API.
type applier struct{ *reconcile.Reconciler }

// Reconcile calls the reconciler. It returns ErrNotDue if the lease ended or the bundle changed
// meanwhile: the API did not fail then.
func (a applier) Reconcile(ctx context.Context, work protocol.Work, lease func() time.Time, quiet time.Time) (protocol.Outcome, error) {
	out, err := a.Reconciler.Reconcile(ctx, work, lease, quiet)
	_, bundleChanged := errors.AsType[*reconcile.BundleChangedError](err)
	if bundleChanged || errors.Is(err, reconcile.ErrLeaseOver) {
		err = fmt.Errorf("%w: %w", election.ErrNotDue, err)
	}
	return out, err
}
