package reconcile

import (
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
	return fmt.Sprintf("the bundle is %s, and the work was decided for %s", orNone(e.Have), e.Want)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// DriftError reports that repairs alone do not keep the objects in place: a full
// pass is due.
type DriftError struct {
	Reason string // empty: Err says it
	Err    error  // nil: there is none
}

// Error says why.
func (e *DriftError) Error() string {
	switch {
	case e.Err == nil:
		return e.Reason
	case e.Reason == "":
		return e.Err.Error()
	}
	return e.Reason + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *DriftError) Unwrap() error { return e.Err }
