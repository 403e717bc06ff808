package exec

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/internal/applyset"
)

func TestClassify(t *testing.T) {
	gr := schema.GroupResource{Resource: "things"}
	status := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}}
	}
	for name, tt := range map[string]struct {
		err  error
		want Class
	}{
		"conflict":              {apierrors.NewConflict(gr, "x", errors.New("modified")), Conflict},
		"exists":                {apierrors.NewAlreadyExists(gr, "x"), Conflict},
		"exists, being deleted": {status(http.StatusConflict, "object is being deleted: things \"x\" already exists"), Retryable},
		"too many":              {apierrors.NewTooManyRequests("busy", 1), Retryable},
		"timeout":               {apierrors.NewTimeoutError("slow", 1), Retryable},
		"no answer":             {&kube.TransportError{Err: errors.New("reset")}, Retryable},
		"lease":                 {fmt.Errorf("x: %w", ErrLeaseOver), Fatal},
		"forbidden":             {apierrors.NewForbidden(gr, "x", nil), Rejected},
		"bad request":           {apierrors.NewBadRequest("no"), Rejected},
		"invalid":               {status(http.StatusUnprocessableEntity, "spec.size: Invalid value"), Rejected},
		"immutable":             {status(http.StatusUnprocessableEntity, "spec.x: Invalid value: field is immutable"), Immutable},
		"roleRef":               {status(http.StatusUnprocessableEntity, "roleRef: Invalid value: cannot change roleRef"), Immutable},
		"parameters":            {status(http.StatusUnprocessableEntity, "parameters: Forbidden: updates to parameters are forbidden."), Immutable},
		"value":                 {status(http.StatusUnprocessableEntity, "value: Forbidden: may not be changed in an update."), Immutable},
		"immutable, but 403":    {status(http.StatusForbidden, "denied: immutable"), Rejected},
		"anything":              {errors.New("anything"), Rejected},
	} {
		if got := Classify(tt.err); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

func TestBySchema(t *testing.T) {
	kind := schema.GroupKind{Group: "x.test", Kind: "Thing"}
	status := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message, Reason: metav1.StatusReasonInvalid}}
	}
	invalid := apierrors.NewInvalid(kind, "x", nil)
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"none":             {nil, false},
		"invalid":          {fmt.Errorf("x: %w", invalid), true},
		"of a rehearsal":   {&rejectedRecreateError{err: invalid}, true},
		"created":          {apierrors.NewBadRequest(`strict decoding error: unknown field "spec.lid"`), true},
		"applied":          {apierrors.NewInternalError(errors.New("x")), false},
		"applied, unknown": {status(http.StatusInternalServerError, "failed to create typed patch object (n/x; x.test/v1, Kind=Thing): .spec.lid: field not declared in schema"), true},
		"a bad request":    {apierrors.NewBadRequest("no"), false},
		"forbidden":        {apierrors.NewForbidden(schema.GroupResource{}, "x", nil), false},
		"a policy":         {status(http.StatusUnprocessableEntity, "ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no"), false},
		"a webhook":        {status(http.StatusUnprocessableEntity, `admission webhook "x.test" denied the request: no`), false},
		"a webhook fails":  {apierrors.NewInternalError(errors.New("failed calling webhook: field not declared in schema")), false},
		"no answer":        {&kube.TransportError{Err: errors.New("reset")}, false},
	} {
		if got := BySchema(tt.err); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	err := errors.New("Secret \"x\" is invalid: data: Invalid value: \"hunter2\"")
	if got := Describe(applyset.Key{GroupKind: schema.GroupKind{Kind: "Secret"}, Name: "x"}, err); strings.Contains(got, "hunter2") {
		t.Errorf("got %q, want it withheld", got)
	}
	if got := Describe(applyset.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Name: "x"}, err); got != err.Error() {
		t.Errorf("got %q, want the API's words", got)
	}
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
	key := applyset.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "going", Name: "x"}
	if got := Describe(key, terminating); strings.Contains(got, "RBAC") || !strings.Contains(got, "kubectl get namespace going -o yaml") {
		t.Errorf("got %q of a namespace that is being deleted", got)
	}
	if got := Describe(key, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", nil)); !strings.Contains(got, "RBAC") {
		t.Errorf("got %q of a user without rights", got)
	}
	long := Describe(applyset.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}}, errors.New(strings.Repeat("ä", 2000)))
	if len(long) > maxMessage+10 || strings.Contains(long, "\uFFFD") {
		t.Errorf("got %d bytes", len(long))
	}
}
