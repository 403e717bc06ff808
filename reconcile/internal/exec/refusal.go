package exec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// Recreates reports whether an object is deleted and created again after the API server refused
// to change a field. A refusal by an admission policy or webhook must be obeyed, unless the
// manifest asks for more.
func Recreates(w plan.Wanted, refusal error) bool {
	if byAdmission(refusal) {
		return w.Object.GetAnnotations()[bundle.AnnotationRecreate] == "enabled"
	}
	return w.Recreate
}

// byAdmission reports whether a policy or a webhook refused, not the API itself.
func byAdmission(err error) bool {
	return containsAny(err.Error(), "denied request", "denied the request")
}

// BySchema reports whether the schema of the kind refused an object, so that another schema may
// accept it.
func BySchema(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || byAdmission(err) {
		return false
	}
	switch message := status.Status().Message; status.Status().Code {
	case http.StatusUnprocessableEntity:
		return status.Status().Reason == metav1.StatusReasonInvalid
	case http.StatusBadRequest: // of a creation
		return strings.Contains(message, "unknown field")
	case http.StatusInternalServerError: // of an apply
		return strings.HasPrefix(message, "failed to create typed patch object")
	}
	return false
}

// Rehearse asks whether the API server would create body if no object used its name. Without
// that, a manifest with a second mistake would lose the object until a user fixes the manifest.
func (a API) Rehearse(ctx context.Context, r kube.Resource, body *kube.Object) error {
	err := a.Read(ctx, func(ctx context.Context) error { return a.Client.RehearseCreate(ctx, r, body) })
	switch {
	case err == nil, apierrors.IsAlreadyExists(err), conflictsWithItself(err):
		return nil
	case Classify(err) == Rejected, Classify(err) == Immutable:
		return &rejectedRecreateError{err: err}
	}
	return err
}

// conflictsWithItself reports whether the create was refused only because the old
// object still holds a resource (an IP, a port, quota).
func conflictsWithItself(err error) bool {
	return containsAny(err.Error(),
		"is already allocated",         // Service: its addresses and ports
		"is already marked as default", // PriorityClass
		"exceeded quota")
}

// Failure says why an object is not as wanted, in the API's words, and why it was
// not recreated.
func Failure(w plan.Wanted, err error) string {
	message := Describe(w.Key, err)
	_, rejected := errors.AsType[*rejectedRecreateError](err)
	switch {
	case rejected:
		message += " (a field that cannot be changed differs as well; the API refuses the new form, so it was not deleted to create it again)"
	case Classify(err) != Immutable || Recreates(w, err):
	case byAdmission(err):
		message += " (by an admission policy or webhook, so it is not deleted and created again unless its annotation is lockstep.dev/recreate: enabled)"
	default:
		message += " (deleting and creating it again is not allowed by its annotation lockstep.dev/recreate, or by its kind)"
	}
	return message
}

// changedByAdmission says that the API server stored other values than those that
// we wrote.
func changedByAdmission(fields []string) string {
	return "changed by admission: " + strings.Join(fields, ", ") +
		" (a mutating policy or webhook sets other values than the bundle; exclude the object from it, or change the bundle)"
}

// namespaceTerminating is the cause by which the API server refuses a creation in a namespace
// that is being deleted.
const namespaceTerminating metav1.CauseType = "NamespaceTerminating"

// maxMessage bounds the API's message in a failure, in bytes.
const maxMessage = 1 << 10

// Describe says why an object was refused, in the API's words. It never shows a
// Secret's contents: refusals quote the values they refuse.
func Describe(k applyset.Key, err error) string {
	if k.Kind == "Secret" && k.Group == "" {
		reason := apierrors.ReasonForError(err)
		if reason == "" {
			reason = "Unknown"
		}
		return fmt.Sprintf("refused (%s); the API's message may show the Secret's contents and is withheld", reason)
	}
	message := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	switch {
	case apierrors.HasStatusCause(err, namespaceTerminating):
		message += fmt.Sprintf(" (the leader tries again; to see what the deletion waits for: kubectl get namespace %s -o yaml)", k.Namespace)
	case apierrors.IsForbidden(err) && slices.Contains([]string{"", "rbac.authorization.k8s.io"}, k.Group):
		message += " (an API server that has just started refuses some requests until it has created its own RBAC roles)"
	}
	return message + applyset.FenceHint(k.GroupKind, err)
}
