package exec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

// ErrLeaseOver reports that the leader's lease ended. Nothing was written after
// that.
var ErrLeaseOver = errors.New("the leader's lease is over")

// ErrForbidden reports that the user may not read or write the mark. It names the possible
// reasons: it is the first message that a new user sees.
var ErrForbidden = errors.New("an API server that has just started refuses everyone until it has created its own RBAC roles; " +
	"if this lasts, the kubeconfig's user has too few rights")

// ErrMarkChanged reports that another leader wrote the mark at the same time.
var ErrMarkChanged = errors.New("another leader wrote the mark at the same time")

// errMarkLost reports that the mark was lost during the pass. The next pass writes
// it again.
var errMarkLost = errors.New("the mark was deleted or damaged during the pass")

// ErrDeleting reports that an object exists but is being deleted.
var ErrDeleting = errors.New("is being deleted")

// NewerContentError reports that the content epoch of an object is higher than in this pass: a
// stale leader wrote it, or this leader's epoch is too low.
type NewerContentError struct {
	Key   applyset.Key
	Epoch int64
}

// Error names the object and its epoch.
func (e *NewerContentError) Error() string {
	return fmt.Sprintf("%s has content epoch %d, which is above this leader's", e.Key, e.Epoch)
}

// UnreachableError reports that the API server does not answer at all, so that
// the pass ended.
type UnreachableError struct {
	Err error
}

// Error describes the failed request.
func (e *UnreachableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// rejectedRecreateError reports that the API server would not create an object that must be
// deleted and created again.
type rejectedRecreateError struct{ err error }

func (e *rejectedRecreateError) Error() string { return e.err.Error() }

func (e *rejectedRecreateError) Unwrap() error { return e.err }

// Class classifies the error of one request, by its meaning for the object.
type Class int

// The classes of errors.
const (
	Rejected  Class = iota + 1 // the API server refuses the request: report it, and go on with other objects
	Fatal                      // the pass cannot go on
	Conflict                   // the object changed since it was read: read it and decide again
	Retryable                  // may pass, and perhaps took effect: pause, then read and decide again
	Immutable                  // a field cannot be changed: delete and create the object
)

// Classify is total. An error of a request that may have taken effect is
// Retryable.
func Classify(err error) Class {
	var transport *kube.TransportError
	var newer *NewerContentError
	switch {
	case errors.Is(err, ErrLeaseOver), errors.Is(err, errMarkLost), errors.Is(err, context.Canceled), errors.As(err, &newer):
		return Fatal
	case errors.As(err, &transport), errors.Is(err, ErrDeleting):
		return Retryable
	case errors.Is(err, context.DeadlineExceeded): // the caller's deadline, not a request's
		return Fatal
	}
	return classifyStatus(err)
}

func classifyStatus(err error) Class {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return Rejected
	}
	switch status.Status().Code {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Retryable
	case http.StatusConflict:
		if strings.Contains(status.Status().Message, "object is being deleted") {
			return Retryable
		}
		return Conflict
	case http.StatusUnprocessableEntity:
		if isImmutable(status.Status().Message) {
			return Immutable
		}
	}
	return Rejected
}

// isImmutable recognizes messages that refuse to change a field. The API knows no reason code
// for it, and the words differ by kind.
func isImmutable(message string) bool {
	return containsAny(strings.ToLower(message),
		"immutable",                        // most kinds
		"cannot change roleref",            // RoleBinding, ClusterRoleBinding
		"updates to",                       // StorageClass, PersistentVolume, StatefulSet: "updates to x are forbidden"
		"may not be changed in an update",  // PriorityClass
		"may not change once set",          // Service
		"may not change fields other than", // Pod
		"self == oldself",                  // a CRD's rule without a message
		"can not be changed", "cannot be changed")
}

func containsAny(message string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(message, w) })
}

// outcomeUnknown reports whether a request that failed with err may still take
// effect.
func outcomeUnknown(err error) bool {
	var transport *kube.TransportError
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.Is(err, ErrLeaseOver):
		return false
	case errors.As(err, &transport):
		return !transport.Unsent
	case errors.As(err, &status):
		return status.Status().Code >= http.StatusInternalServerError
	}
	return true
}

// conclude returns the final form of an error of a request that is not repeated
// any more.
func conclude(err error) error {
	_, transport := errors.AsType[*kube.TransportError](err)
	if _, unreachable := errors.AsType[*UnreachableError](err); transport && !unreachable && !errors.Is(err, context.Canceled) {
		return &UnreachableError{Err: err}
	}
	return err
}

// EndsPass reports whether an error concerns more than one object or kind.
func EndsPass(err error) bool {
	_, unreachable := errors.AsType[*UnreachableError](err)
	return err != nil && (unreachable || Classify(err) == Fatal)
}

// markError adds the operation on the mark. nil stays nil.
func markError(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case byAdmission(err):
		return fmt.Errorf("%s: %w; exclude the ConfigMap lockstep in kube-system from that policy or webhook: no leader can work without its mark", doing, err)
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %w (%w)", doing, err, ErrForbidden)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
