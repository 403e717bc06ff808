package reconcile

import (
	"errors"
	"fmt"
)

// ErrLeaseOver says that the leader's lease ended during the pass. Nothing was
// written after that.
var ErrLeaseOver = errors.New("the leader's lease is over")

// BundleChangedError says that the newest good bundle is not the one that the
// work was decided for. The leader decides again.
type BundleChangedError struct {
	Want, Have string // digests
}

// Error names both digests.
func (e *BundleChangedError) Error() string {
	return fmt.Sprintf("the bundle is %s, and the work was decided for %s", orNone(e.Have), e.Want)
}

// UnreachableError says that the apiserver does not answer at all, so that the
// pass ended.
type UnreachableError struct {
	Err error
}

// Error says what failed.
func (e *UnreachableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// ForbiddenError says that the mark may not be read or written.
type ForbiddenError struct {
	Err error
}

// Error adds what the reason may be: it is the first thing that a new user sees.
func (e *ForbiddenError) Error() string {
	return e.Err.Error() + " (an apiserver that has just started refuses everybody until it has made its own RBAC roles; " +
		"if this lasts, the kubeconfig's user lacks rights)"
}

// Unwrap returns the cause.
func (e *ForbiddenError) Unwrap() error { return e.Err }

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// DriftError says that repairs alone do not keep the objects as they should be: a
// full pass is due.
type DriftError struct {
	Reason string
	Err    error // nil: there is none
}

// Error says why.
func (e *DriftError) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Reason + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *DriftError) Unwrap() error { return e.Err }
