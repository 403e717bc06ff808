package applyset

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// The epoch policy, which users know as the fence, is an admission policy in each
// set (docs/protocol.md#stale-writes). With it the API server itself refuses to
// replace an object with older content. It examines the very state that its
// compare-and-swap replaces. So no stale leader can be late enough to slip
// through, whatever it read or believes.
//
// It is the second line of defense. The first is the preconditions of each
// write. They also protect deletions, kinds that no policy governs, and the time
// while the policy is missing. Neither can refuse the creation of an object that
// does not exist (docs/bundles.md).
//
// The policy's conditions never fail: where the old annotation is garbage, the
// policy does not apply. Otherwise no writer could repair that object.

// epochPattern is what ParseEpoch accepts, without the bound, as an RE2
// expression.
const epochPattern = `^[1-9][0-9]{0,15}$`

// AdmissionGroup is the API group of policies and webhook configurations.
const AdmissionGroup = "admissionregistration.k8s.io"

// FenceKinds returns the kinds of the epoch policy's objects.
func FenceKinds() []schema.GroupKind {
	return []schema.GroupKind{
		{Group: AdmissionGroup, Kind: "ValidatingAdmissionPolicy"},
		{Group: AdmissionGroup, Kind: "ValidatingAdmissionPolicyBinding"},
	}
}

// fenceName is the name of the policy's objects. They are cluster-wide, and sets
// in two namespaces may have the same name.
func (s Set) fenceName() string { return s.Name + "-fence." + s.Namespace }

// IsFence reports whether k is an object of the set's epoch policy.
func (s Set) IsFence(k Key) bool {
	for _, gk := range FenceKinds() {
		if k == (Key{GroupKind: gk, Name: s.fenceName()}) {
			return true
		}
	}
	return false
}

// Fence returns the objects of the set's epoch policy, complete with the server's
// defaults, so that one write is enough.
func (s Set) Fence() []*kube.Object {
	kinds, name := FenceKinds(), s.fenceName()
	return []*kube.Object{
		fenceObject(kinds[0], name, map[string]any{
			"failurePolicy": "Fail",
			"matchConstraints": map[string]any{
				"matchPolicy":    "Equivalent",
				"objectSelector": map[string]any{"matchLabels": map[string]any{bundle.LabelPartOf: s.ID()}},
				"resourceRules": []any{map[string]any{
					"apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "operations": []any{"UPDATE"},
					"resources": []any{"*"}, // without subresources: we write none
					"scope":     "*",
				}},
			},
			"matchConditions": []any{map[string]any{"name": "stamped", "expression": celStamped()}},
			"variables": []any{
				map[string]any{"name": "before", "expression": celEpoch("oldObject")},
				map[string]any{"name": "after", "expression": celEpoch("object")},
			},
			"validations": fenceValidations(),
		}),
		fenceObject(kinds[1], name, map[string]any{
			"policyName": name, "validationActions": []any{"Deny"},
		}),
	}
}

func fenceObject(gk schema.GroupKind, name string, spec map[string]any) *kube.Object {
	return &kube.Object{Object: map[string]any{
		"apiVersion": gk.WithVersion("v1").GroupVersion().String(), "kind": gk.Kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// FenceHint says which rights a user needs whose request for one of the policy's
// kinds was refused with err. It is empty for other kinds and errors.
func FenceHint(gk schema.GroupKind, err error) string {
	if !apierrors.IsForbidden(err) || !slices.Contains(FenceKinds(), gk) {
		return ""
	}
	return " (each set has a fence of a policy and its binding: the user needs get, list, watch, create, patch and delete of " +
		"validatingadmissionpolicies and validatingadmissionpolicybindings)"
}

// celEpoch is an object's epoch annotation, or "".
func celEpoch(object string) string {
	return fmt.Sprintf("%s.metadata.?annotations[?'%s'].orValue('')", object, bundle.AnnotationContentEpoch)
}

// celStamped is true where the old object has an epoch that we believe.
func celStamped() string {
	old := celEpoch("oldObject")
	return fmt.Sprintf("%s.matches('%s') && int(%s) <= %d", old, epochPattern, old, int64(protocol.MaxContentEpoch))
}

// fenceValidations say how a stamp may change. Users may remove it, as `kubectl
// replace` with a manifest does: the next pass restores it. Lockstep itself never
// writes an object without one.
func fenceValidations() []any {
	keep := fmt.Sprintf("; leave the annotation %s as it is, or out", bundle.AnnotationContentEpoch)
	return []any{
		map[string]any{
			"expression": fmt.Sprintf("variables.after != '' || request.options.?fieldManager.orValue('') != '%s'", kube.FieldManager),
			"message":    fmt.Sprintf("a write of the field manager %s needs a content epoch", kube.FieldManager),
			"reason":     "Forbidden",
		},
		map[string]any{
			"expression": fmt.Sprintf("variables.after == '' || variables.after.matches('%s') && int(variables.after) >= int(variables.before)", epochPattern),
			"messageExpression": fmt.Sprintf("'content epoch ' + variables.before + ' cannot become ' + "+
				"(variables.after.matches('%s') ? variables.after : 'what is no number') + '%s'", epochPattern, keep),
			"message": "the content epoch cannot become lower" + keep,
			"reason":  "Forbidden",
		},
	}
}
