package reconcile

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// The fence (DESIGN 6.4) is an admission policy in every set. By it the API
// server itself refuses to turn an object back to older content: it looks at
// the very state that its compare-and-swap replaces, so no leader can be late
// enough to slip through, whatever it read or believes.
//
// It is the second line. The first are the preconditions of each write, which
// hold for deletions, for the kinds that no policy governs, and while the fence
// is away. What neither can hold is a creation of what is not there (docs/bundles.md).
//
// Its conditions never fail: where the old annotation is garbage the policy does
// not apply, or nobody could put it right.

// wellFormed is what parseEpoch takes, but for the bound, as an RE2 expression.
const wellFormed = `^[1-9][0-9]{0,15}$`

// admissionGroup has the policies and webhook configurations.
const admissionGroup = "admissionregistration.k8s.io"

// fenceKinds are the kinds of the fence's objects.
func fenceKinds() []schema.GroupKind {
	return []schema.GroupKind{
		{Group: admissionGroup, Kind: "ValidatingAdmissionPolicy"},
		{Group: admissionGroup, Kind: "ValidatingAdmissionPolicyBinding"},
	}
}

// fenceName is the name of the fence's objects. They are of the whole cluster,
// and sets in two namespaces may bear one name.
func (s set) fenceName() string { return s.name + "-fence." + s.namespace }

// isFence reports whether k is one of the fence's objects.
func (s set) isFence(k key) bool {
	for _, gk := range fenceKinds() {
		if k == (key{GroupKind: gk, name: s.fenceName()}) {
			return true
		}
	}
	return false
}

// fence returns the objects of a set's fence, complete with the server's
// defaults, so that one write is enough.
func fence(s set) []*kube.Object {
	kinds, name := fenceKinds(), s.fenceName()
	return []*kube.Object{
		fenceObject(kinds[0], name, map[string]any{
			"failurePolicy": "Fail",
			"matchConstraints": map[string]any{
				"matchPolicy":    "Equivalent",
				"objectSelector": map[string]any{"matchLabels": map[string]any{bundle.LabelPartOf: s.id()}},
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

// fenceHint says what a user lacks who was refused one of the fence's kinds.
func fenceHint(gk schema.GroupKind, err error) string {
	if !apierrors.IsForbidden(err) || !slices.Contains(fenceKinds(), gk) {
		return ""
	}
	return " (each set has a fence of a policy and its binding: the user needs get, list, watch, create, patch and delete of " +
		"validatingadmissionpolicies and validatingadmissionpolicybindings)"
}

// celEpoch is an object's annotation, or "".
func celEpoch(object string) string {
	return fmt.Sprintf("%s.metadata.?annotations[?'%s'].orValue('')", object, bundle.AnnotationContentEpoch)
}

// celStamped says whether the old object bears an epoch that we believe.
func celStamped() string {
	old := celEpoch("oldObject")
	return fmt.Sprintf("%s.matches('%s') && int(%s) <= %d", old, wellFormed, old, int64(believable))
}

// fenceValidations say what becomes of a stamp. People may take it away, as
// `kubectl replace` with a manifest does: the next pass puts it back. Lockstep
// itself never writes without.
func fenceValidations() []any {
	keep := fmt.Sprintf("; leave the annotation %s as it is, or out", bundle.AnnotationContentEpoch)
	return []any{
		map[string]any{
			"expression": fmt.Sprintf("variables.after != '' || request.options.?fieldManager.orValue('') != '%s'", kube.FieldManager),
			"message":    fmt.Sprintf("a write of the field manager %s bears a content epoch", kube.FieldManager),
			"reason":     "Forbidden",
		},
		map[string]any{
			"expression": fmt.Sprintf("variables.after == '' || variables.after.matches('%s') && int(variables.after) >= int(variables.before)", wellFormed),
			"messageExpression": fmt.Sprintf("'content epoch ' + variables.before + ' cannot become ' + "+
				"(variables.after.matches('%s') ? variables.after : 'what is no number') + '%s'", wellFormed, keep),
			"message": "the content epoch cannot become lower" + keep,
			"reason":  "Forbidden",
		},
	}
}
