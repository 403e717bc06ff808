package reconcile

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// recreates reports whether an object of which the API says that a field cannot
// be changed is deleted and created again. An admission policy or webhook that
// says so is there to be obeyed, not to be got round, unless somebody asks.
func (w wanted) recreates(refusal error) bool {
	if byAdmission(refusal) {
		return w.obj.GetAnnotations()[bundle.AnnotationRecreate] == "enabled"
	}
	return w.recreate
}

// byAdmission reports whether a policy or a webhook refused, and not the API
// itself.
func byAdmission(err error) bool {
	return strings.Contains(err.Error(), "denied request") || strings.Contains(err.Error(), "denied the request")
}

// failure says why an object is not as wanted, in the API's words, and why that
// was not brought about in another way.
func (w wanted) failure(err error) string {
	message := describe(w.key, err)
	_, unfit := errors.AsType[*unfitError](err)
	switch {
	case unfit:
		message += " (a field that cannot be changed differs as well; the API refuses the new form, so it was not deleted to create it again)"
	case judge(err) != immutable || w.recreates(err):
	case byAdmission(err):
		message += " (by an admission policy or webhook, so it is not deleted and created again unless its annotation says lockstep.dev/recreate: enabled)"
	default:
		message += " (deleting and creating it again is not allowed by its annotation lockstep.dev/recreate, or by its kind)"
	}
	return message
}

// unfitError says that the API would not create an object that is to be deleted
// and created again.
type unfitError struct{ err error }

func (e *unfitError) Error() string { return e.err.Error() }

func (e *unfitError) Unwrap() error { return e.err }

// rehearse asks whether the API would create the object in body if the one of
// its name were gone. Without that, a manifest with a second mistake would lose
// the object until somebody mends it.
func (a api) rehearse(ctx context.Context, r kube.Resource, body *kube.Object) error {
	err := a.read(ctx, func(ctx context.Context) error { return a.client.RehearseCreate(ctx, r, body) })
	switch {
	case err == nil, apierrors.IsAlreadyExists(err), isInItsOwnWay(err):
		return nil
	case judge(err) == refused, judge(err) == immutable:
		return &unfitError{err: err}
	}
	return err
}

// isInItsOwnWay recognizes refusals for what the object that is there holds
// itself, and sets free when it goes.
func isInItsOwnWay(err error) bool {
	for _, words := range []string{
		"is already allocated",         // Service: its addresses and ports
		"is already marked as default", // PriorityClass
		"exceeded quota",
	} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}
