package reconcile

import (
	"cmp"
	"fmt"

	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
)

// ErrLeaseOver reports that the leader's lease ended during the pass. Nothing was
// written after that.
var ErrLeaseOver = exec.ErrLeaseOver

// BundleChangedError reports that the newest valid bundle is not the one for which
// the work was decided. The leader decides again.
type BundleChangedError struct {
	Want, Have string // digests; Have is empty where there is no bundle
}

// Error names both digests.
func (e *BundleChangedError) Error() string {
	return fmt.Sprintf("the bundle is %s, and the work was decided for %s", cmp.Or(e.Have, "none"), e.Want)
}

// DriftError reports that repairs alone do not keep the objects in place: a full
// pass is due.
type DriftError struct{ Err error }

// Error says why.
func (e *DriftError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *DriftError) Unwrap() error { return e.Err }
